// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

extension EventLoop {
    /// Watches `descriptor` and calls `handler` on the loop's thread whenever it is ready.
    ///
    /// If a descriptor was closed without being unregistered, a new descriptor with its number replaces it.
    /// - Throws: `.eventLoop` with `EEXIST` when it is watched already, `EBADF` when it is not open, `EPERM` when it is
    ///   a kind of file that cannot be waited for; `.closed` once ``run(afterEachRound:)`` has returned.
    public func register(
        _ descriptor: Int32, for interest: Interest = .readable, handler: @escaping @Sendable (Readiness) -> Void
    ) throws(TunnelIOError) -> Registration {
        let (registration, stale) = try state.withLock {
            (state) throws(TunnelIOError) -> (Registration, State.Source?) in
            guard state.phase != .finished else { throw TunnelIOError(.closed) }
            let token = state.makeToken()
            if !interest.isEmpty { try poller.add(descriptor, token: token, interest: interest) }
            let stale = state.owners[descriptor].flatMap { state.sources.remove($0) }
            state.owners[descriptor] = token
            state.sources.append(
                State.Source(
                    token: token, descriptor: descriptor, interest: interest, handler: Handler(handler)))
            return (Registration(token: token, descriptor: descriptor), stale)
        }
        // A handler's captured objects must not be released under the lock.
        withExtendedLifetime(stale) {}
        return registration
    }

    /// Changes the awaited events. With an empty interest, not even a hang-up is reported.
    ///
    /// Has no effect if the registration was removed.
    /// - Throws: `.eventLoop` if the system refuses, for example because the descriptor was closed.
    public func modify(_ registration: Registration, interest: Interest) throws(TunnelIOError) {
        try state.withLock { (state) throws(TunnelIOError) in
            guard let index = state.sources.index(of: registration.token) else { return }
            let old = state.sources.all[index].interest
            guard old != interest else { return }
            // epoll always reports hang-ups, so the loop removes a descriptor that has no interest.
            if interest.isEmpty {
                poller.remove(registration.descriptor, interest: old)
            } else if old.isEmpty {
                try poller.add(registration.descriptor, token: registration.token, interest: interest)
            } else {
                try poller.modify(registration.descriptor, token: registration.token, from: old, to: interest)
            }
            state.sources.all[index].interest = interest
        }
    }

    /// Stops watching. After a call on the loop's thread, the handler is not called again; after a call on another thread, it
    /// may still be running.
    ///
    /// You can call it more than once, and after the descriptor was closed.
    public func unregister(_ registration: Registration) {
        let source = state.withLock { state -> State.Source? in
            guard let source = state.sources.remove(registration.token) else { return nil }
            // Unless the descriptor was closed and its number now belongs to another file.
            if state.owners[source.descriptor] == registration.token {
                state.owners[source.descriptor] = nil
                if !source.interest.isEmpty { poller.remove(source.descriptor, interest: source.interest) }
            }
            return source
        }
        // The handler's captured objects must not be released under the lock.
        withExtendedLifetime(source) {}
    }
}
