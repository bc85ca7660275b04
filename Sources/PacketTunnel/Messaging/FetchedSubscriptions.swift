// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// The subscriptions of clients that the router cannot call back, such as an app whose tunnel is in an extension. The
/// client fetches each element with a request, and the router holds the request until there is an element.
final class FetchedSubscriptions: Sendable {
    struct Key: Hashable {
        var name: String
        var correlation: UInt64
    }

    /// The longest time that the router holds a request for an element.
    static let patience: Duration = .seconds(10)
    /// The time after which a subscription without fetches ends.
    static let idleLimit: Duration = .seconds(60)

    private struct State {
        var entries: [Key: Entry] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())

    func entry(_ key: Key) -> Entry? { state.withLock { $0.entries[key] } }

    /// Adds a subscription; returns `false` if it cannot be added.
    func add(_ entry: Entry, _ key: Key) -> Bool {
        state.withLock { state in
            guard !state.isClosed, state.entries[key] == nil else { return false }
            state.entries[key] = entry
            return true
        }
    }

    func remove(_ key: Key) { state.withLock { $0.entries.removeValue(forKey: key) }?.end() }

    func close() {
        let entries = state.withLock { state in
            state.isClosed = true
            defer { state.entries = [:] }
            return state.entries
        }
        for entry in entries.values { entry.end() }
    }

    /// One subscription. It keeps the last fetched element, because the answer with it may have been lost.
    final class Entry: Sendable {
        private struct State {
            var count: UInt64 = 0
            var last: [UInt8]?
            var pending: Task<[UInt8]?, Never>?
            /// The number of requests so far, and of those in progress.
            var requests = 0
            var waiting = 0
            var timer: Task<Void, Never>?
        }

        let frames = MemoryFrames()
        private let state = Mutex(State())

        /// Returns the frame with this number, counted from 1. It is either the last frame again or the next one; `nil`
        /// if no frame arrives in time.
        /// - Throws: `.undecodableMessage` for any other number; `.closed` after the end of the subscription.
        func frame(_ number: UInt64, _ clock: any Clock<Duration>) async throws(MessageError) -> [UInt8]? {
            let step = state.withLock { state -> (last: [UInt8]?, pending: Task<[UInt8]?, Never>?) in
                if number == state.count, let last = state.last { return (last, nil) }
                guard number == state.count + 1 else { return (nil, nil) }
                if let pending = state.pending { return (nil, pending) }
                let frames = frames
                let pending = Task { try? await frames.next() }
                state.pending = pending
                return (nil, pending)
            }
            if let last = step.last { return last }
            guard let pending = step.pending else { throw .undecodableMessage("it asks for element \(number)") }
            let outcome = await withDeadline(FetchedSubscriptions.patience, clock: clock) { await pending.value }
            guard case .finished(let frame) = outcome else { return nil }
            guard let frame else { throw .closed }
            state.withLock { state in
                // Two requests may have waited for the same frame.
                guard state.count + 1 == number else { return }
                (state.count, state.last, state.pending) = (number, frame, nil)
            }
            return frame
        }

        /// Records the start of a fetch.
        func enter() {
            state.withLock { state in
                state.requests += 1
                state.waiting += 1
                state.timer?.cancel()
                state.timer = nil
            }
        }

        /// Records the end of a fetch. Calls `expire` if no other fetch follows within the idle limit.
        func leave(_ clock: any Clock<Duration>, expire: @escaping @Sendable () -> Void) {
            state.withLock { state in
                state.waiting -= 1
                guard state.waiting <= 0 else { return }
                let count = state.requests
                state.timer = Task { [weak self] in
                    guard (try? await clock.sleep(for: FetchedSubscriptions.idleLimit)) != nil else { return }
                    let isIdle = self?.state.withLock { $0.requests == count } ?? false
                    if isIdle { expire() }
                }
            }
        }

        func end() {
            frames.cancel()
            state.withLock { $0.timer }?.cancel()
        }
    }
}

extension MessageRouter {
    private struct Take: Codable { var number: UInt64 }

    /// Begins a subscription whose elements are fetched. An empty reply reports that it has begun.
    func begin(_ request: MessageContainer) -> [UInt8] {
        let key = FetchedSubscriptions.Key(name: request.name, correlation: request.correlation)
        let entry = FetchedSubscriptions.Entry()
        guard fetched.add(entry, key) else { return refuse(.closed, request) }
        entry.frames.start { [self] handoff in
            let last = await serve(subscription: request) { frame in
                guard await handoff.send(frame) else { throw MessageError.closed }
            }
            _ = await handoff.send(last)
            handoff.finish()
        }
        entry.enter()
        leave(entry, key)
        return empty(.reply, request)
    }

    /// Returns the next element, or the error, end or empty reply in its place.
    func take(_ request: MessageContainer) async -> [UInt8] {
        let key = FetchedSubscriptions.Key(name: request.name, correlation: request.correlation)
        guard let entry = fetched.entry(key) else { return refuse(.closed, request) }
        entry.enter()
        defer { leave(entry, key) }
        do throws(MessageError) {
            let take: Take
            do { take = try MessageCoding.decode(Take.self, from: request.payload) } catch {
                throw .undecodableMessage(DecodingError.summary(of: error))
            }
            return try await entry.frame(take.number, clock) ?? empty(.reply, request)
        } catch {
            return refuse(error, request)
        }
    }

    /// Ends a subscription.
    func leave(_ request: MessageContainer) -> [UInt8] {
        fetched.remove(FetchedSubscriptions.Key(name: request.name, correlation: request.correlation))
        return empty(.reply, request)
    }

    private func leave(_ entry: FetchedSubscriptions.Entry, _ key: FetchedSubscriptions.Key) {
        entry.leave(clock) { [weak fetched] in fetched?.remove(key) }
    }

    private func empty(_ kind: MessageContainer.Kind, _ request: MessageContainer) -> [UInt8] {
        do throws(MessageError) { return try encode(kind, request, []) } catch { return refuse(error, request) }
    }

    /// Encodes a request for an element by its number.
    static func take(_ number: UInt64) throws -> [UInt8] { try MessageCoding.encode(Take(number: number)) }
}
