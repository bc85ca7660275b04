// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import TrustPinning

/// Keeps idle connections for the next requests, and limits the number of connections to each endpoint.
final class ConnectionPool: Sendable {
    private enum Grant: Sendable {
        case connection(HTTPConnection)
        /// Permission to open a connection.
        case slot
        case failure(PinnedSessionError)
    }

    private struct Waiter {
        let id: UInt64
        /// Whether the request needs a connection that was not used before.
        let onlyNew: Bool
        let continuation: CheckedContinuation<Grant, Never>
    }

    private struct Place {
        /// The idle connections, the most recently used one last.
        var idle: [HTTPConnection] = []
        /// The number of open and opening connections.
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

    /// - Parameter limit: The maximum number of connections to one endpoint.
    init(connector: Connector, limit: Int) {
        self.connector = connector
        self.limit = max(limit, 1)
    }

    deinit { close() }

    /// A connection for one exchange.
    struct Lease: Sendable {
        var connection: HTTPConnection
        /// Whether it has served earlier requests, so that the server may have closed it in the meantime.
        var isReused: Bool
    }

    /// Returns an idle connection, or opens one; waits for a slot if the limit is reached.
    ///
    /// Policies and identities may change while the request waits or the connection opens, so the connection's key is
    /// compared with the current key before this call returns.
    /// - Parameter onlyNew: Whether the connection must be new.
    func lease(
        _ endpoint: Endpoint, deadline: NIODeadline, onlyNew: Bool = false
    ) async -> Result<Lease, PinnedSessionError> {
        while true {
            let lease: Lease
            switch await grant(endpoint, deadline: deadline, onlyNew: onlyNew) {
            case .connection(let connection): lease = Lease(connection: connection, isReused: true)
            case .failure(let error): return .failure(error)
            case .slot:
                switch await open(endpoint, deadline: deadline) {
                case .success(let connection): lease = Lease(connection: connection, isReused: false)
                case .failure(let error): return .failure(error)
                }
            }
            guard lease.connection.key != currentKey(endpoint) else { return .success(lease) }
            lease.connection.closeIfIdle()
        }
    }

    /// Opens a connection in a granted slot. The slot is returned when the connection's socket is closed.
    private func open(
        _ endpoint: Endpoint, deadline: NIODeadline
    ) async -> Result<HTTPConnection, PinnedSessionError> {
        let events = Connector.Events(
            onIdle: { [weak self] connection in
                guard let self else { return connection.close() }
                release(connection)
            },
            onClose: { [weak self] connection in self?.closed(connection) },
            onUnused: { [weak self] in self?.slotReturned(endpoint) })
        switch await connector.connect(currentKey(endpoint), deadline: deadline, events: events) {
        case .success(let connection):
            // The pool was closed while the connection opened, so close the connection here.
            guard !content.withLockedValue({ $0.isClosed }) else {
                connection.close()
                return .failure(.sessionClosed)
            }
            return .success(connection)
        case .failure(let error): return .failure(error)
        }
    }

    /// The key that a connection must have to be used.
    private func currentKey(_ endpoint: Endpoint) -> ConnectionKey { connector.tls.key(for: endpoint) }

    /// Closes idle connections. An active connection is closed after its exchange if its key is out of date, and
    /// otherwise after the keep-alive time.
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

    /// Closes idle connections, fails waiting requests, and grants no more leases.
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

    // MARK: - Slots

    private func grant(_ endpoint: Endpoint, deadline: NIODeadline, onlyNew: Bool) async -> Grant {
        let id = content.withLockedValue { content in
            content.nextWaiter &+= 1
            return content.nextWaiter
        }
        let timer = connector.group.next().scheduleTask(deadline: deadline) { [weak self] in
            self?.failWaiter(id, of: endpoint, .timedOut(.whole))
        }
        defer { timer.cancel() }
        let key = currentKey(endpoint)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                var unwanted: [HTTPConnection] = []
                let grant = content.withLockedValue { content -> Grant? in
                    guard !content.isClosed else { return .failure(.sessionClosed) }
                    // The task was already cancelled, so `onCancel` has run and would not find the waiter.
                    guard !Task.isCancelled else { return .failure(.cancelled) }
                    // The timer may already have fired, too.
                    guard NIODeadline.now() < deadline else { return .failure(.timedOut(.whole)) }
                    var place = content.places[endpoint] ?? Place()
                    defer { content.places[endpoint] = place }
                    // Do not reuse connections that were opened under other policies or identities.
                    unwanted = place.idle.filter { $0.key != key || !$0.isActive }
                    place.idle.removeAll { $0.key != key || !$0.isActive }
                    if !onlyNew, let connection = place.idle.popLast() { return .connection(connection) }
                    if place.count >= limit, onlyNew, !place.idle.isEmpty {
                        // When the idle connection is closed, its slot is granted for the new connection.
                        unwanted.append(place.idle.removeFirst())
                    }
                    guard place.count >= limit else {
                        place.count += 1
                        return .slot
                    }
                    place.waiters.append(Waiter(id: id, onlyNew: onlyNew, continuation: continuation))
                    return nil
                }
                for connection in unwanted { connection.closeIfIdle() }
                if let grant { continuation.resume(returning: grant) }
            }
        } onCancel: {
            failWaiter(id, of: endpoint, .cancelled)
        }
    }

    private func failWaiter(_ id: UInt64, of endpoint: Endpoint, _ error: PinnedSessionError) {
        let waiter = content.withLockedValue { content -> Waiter? in
            guard let index = content.places[endpoint]?.waiters.firstIndex(where: { $0.id == id }) else { return nil }
            return content.places[endpoint]?.waiters.remove(at: index)
        }
        waiter?.continuation.resume(returning: .failure(error))
    }

    private func release(_ connection: HTTPConnection) {
        let endpoint = connection.key.endpoint
        // If policies or identities have changed, close the connection: its slot is then granted to the next request.
        let isCurrent = connection.key == currentKey(endpoint)
        var isUnwanted = false
        let waiter = content.withLockedValue { content -> Waiter? in
            guard isCurrent, !content.isClosed, var place = content.places[endpoint] else {
                isUnwanted = true
                return nil
            }
            defer { content.places[endpoint] = place }
            guard let first = place.waiters.first else {
                place.idle.append(connection)
                return nil
            }
            guard !first.onlyNew else {
                // The slot is for a new connection.
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

    /// Called when a connection was closed or failed to open: the next waiting request may open one.
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

    /// The numbers of connections, of idle ones, and of waiting requests, for tests.
    struct Figures: Sendable {
        var open = 0
        var idle = 0
        var waiting = 0
    }

    var figures: Figures {
        content.withLockedValue { content in
            content.places.values.reduce(into: Figures()) { figures, place in
                figures.open += place.count
                figures.idle += place.idle.count
                figures.waiting += place.waiters.count
            }
        }
    }
}
