// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import TrustPinning

/// Keeps connections that can take another request, and bounds how many there are to each endpoint.
final class ConnectionPool: Sendable {
    private enum Grant: Sendable {
        case connection(HTTPConnection)
        /// Leave to open one.
        case slot
        case failure(PinnedSessionError)
    }

    private struct Waiter {
        let id: UInt64
        let key: ConnectionKey
        let continuation: CheckedContinuation<Grant, Never>
    }

    private struct Place {
        /// The last one used comes last.
        var idle: [HTTPConnection] = []
        /// Open ones and those that are being opened.
        var count = 0
        var waiters: [Waiter] = []
    }

    private struct Content {
        var places: [Endpoint: Place] = [:]
        var nextWaiter: UInt64 = 0
        var isClosed = false
    }

    private let content = NIOLockedValueBox(Content())
    private let connector: Connector
    private let limit: Int

    /// - Parameter limit: the most connections to one endpoint.
    init(connector: Connector, limit: Int) {
        self.connector = connector
        self.limit = max(limit, 1)
    }

    deinit { close() }

    /// A connection for one exchange.
    struct Lease: Sendable {
        var connection: HTTPConnection
        /// Whether it has served others before, and may have been closed by the server meanwhile.
        var isReused: Bool
    }

    /// Takes a connection that is free, or opens one; waits for its turn when there are too many.
    /// - Parameter onlyNew: to take none that was in use before.
    func lease(
        _ key: ConnectionKey, deadline: NIODeadline, onlyNew: Bool = false
    ) async -> Result<Lease, PinnedSessionError> {
        switch await grant(key, deadline: deadline, onlyNew: onlyNew) {
        case .connection(let connection): return .success(Lease(connection: connection, isReused: true))
        case .failure(let error): return .failure(error)
        case .slot: break
        }
        let events = Connector.Events(
            onIdle: { [weak self] connection in
                guard let self else { return connection.close() }
                release(connection)
            },
            onClose: { [weak self] connection in self?.closed(connection) })
        switch await connector.connect(key, deadline: deadline, events: events) {
        case .success(let connection):
            // Shut down meanwhile, so that nobody would close it.
            guard !content.withLockedValue({ $0.isClosed }) else {
                connection.close()
                return .failure(.sessionClosed)
            }
            return .success(Lease(connection: connection, isReused: false))
        case .failure(let error):
            slotReturned(key.endpoint)
            return .failure(error)
        }
    }

    /// Closes what is idle. What is in use is closed after its exchange, when its key is no longer asked for, by time.
    func closeIdle() {
        let idle = content.withLockedValue { content in
            content.places.keys.flatMap { endpoint in
                let idle = content.places[endpoint]?.idle ?? []
                content.places[endpoint]?.idle = []
                return idle
            }
        }
        for connection in idle { connection.closeIfIdle() }
    }

    /// Closes what is idle, fails who waits, and lends nothing any more.
    func close() {
        let (idle, waiters) = content.withLockedValue { content in
            content.isClosed = true
            let idle = content.places.values.flatMap(\.idle)
            let waiters = content.places.values.flatMap(\.waiters)
            for endpoint in content.places.keys {
                content.places[endpoint]?.idle = []
                content.places[endpoint]?.waiters = []
            }
            return (idle, waiters)
        }
        for waiter in waiters { waiter.continuation.resume(returning: .failure(.sessionClosed)) }
        for connection in idle { connection.close() }
    }

    // MARK: - Turns

    private func grant(_ key: ConnectionKey, deadline: NIODeadline, onlyNew: Bool) async -> Grant {
        let id = content.withLockedValue { content in
            content.nextWaiter &+= 1
            return content.nextWaiter
        }
        let timer = connector.group.next().scheduleTask(deadline: deadline) { [weak self] in
            self?.give(up: id, of: key.endpoint, .timedOut(.whole))
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                var unwanted: [HTTPConnection] = []
                let grant = content.withLockedValue { content -> Grant? in
                    guard !content.isClosed else { return .failure(.sessionClosed) }
                    // Cancelled before this, so that nobody would take it out of the queue.
                    guard !Task.isCancelled else { return .failure(.cancelled) }
                    var place = content.places[key.endpoint] ?? Place()
                    defer { content.places[key.endpoint] = place }
                    // Ones that were judged by an older state of trust or identity are used no more.
                    unwanted = place.idle.filter { $0.key != key || !$0.isActive }
                    place.idle.removeAll { $0.key != key || !$0.isActive }
                    if !onlyNew, let connection = place.idle.popLast() { return .connection(connection) }
                    if place.count >= limit, onlyNew, !place.idle.isEmpty {
                        // It leaves its slot to the new one when it is closed.
                        unwanted.append(place.idle.removeFirst())
                    }
                    guard place.count >= limit else {
                        place.count += 1
                        return .slot
                    }
                    place.waiters.append(Waiter(id: id, key: key, continuation: continuation))
                    return nil
                }
                for connection in unwanted { connection.closeIfIdle() }
                if let grant { continuation.resume(returning: grant) }
            }
        } onCancel: {
            give(up: id, of: key.endpoint, .cancelled)
        }
    }

    private func give(up id: UInt64, of endpoint: Endpoint, _ error: PinnedSessionError) {
        let waiter = content.withLockedValue { content -> Waiter? in
            guard let index = content.places[endpoint]?.waiters.firstIndex(where: { $0.id == id }) else { return nil }
            return content.places[endpoint]?.waiters.remove(at: index)
        }
        waiter?.continuation.resume(returning: .failure(error))
    }

    private func release(_ connection: HTTPConnection) {
        let endpoint = connection.key.endpoint
        var isUnwanted = false
        let waiter = content.withLockedValue { content -> Waiter? in
            guard !content.isClosed, var place = content.places[endpoint] else {
                isUnwanted = true
                return nil
            }
            defer { content.places[endpoint] = place }
            guard let first = place.waiters.first else {
                place.idle.append(connection)
                return nil
            }
            guard first.key == connection.key else {
                // Of an older state of trust: it is closed, and its slot goes to who waits.
                isUnwanted = true
                return nil
            }
            return place.waiters.removeFirst()
        }
        if isUnwanted { connection.closeIfIdle() }
        waiter?.continuation.resume(returning: .connection(connection))
    }

    private func closed(_ connection: HTTPConnection) {
        content.withLockedValue { content in
            content.places[connection.key.endpoint]?.idle.removeAll { $0 === connection }
        }
        slotReturned(connection.key.endpoint)
    }

    /// A connection is closed or did not come to be: the next one who waits may open one.
    private func slotReturned(_ endpoint: Endpoint) {
        let waiter = content.withLockedValue { content -> Waiter? in
            guard var place = content.places[endpoint] else { return nil }
            defer { content.places[endpoint] = place.count == 0 && place.waiters.isEmpty ? nil : place }
            guard place.waiters.isEmpty else { return place.waiters.removeFirst() }
            place.count -= 1
            return nil
        }
        waiter?.continuation.resume(returning: .slot)
    }

    /// For tests: how many connections there are, and how many of them are idle.
    var figures: (open: Int, idle: Int) {
        content.withLockedValue { content in
            (content.places.values.map(\.count).reduce(0, +), content.places.values.map(\.idle.count).reduce(0, +))
        }
    }
}
