// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
package import TunnelSystem

/// Accepts the connections of a listening socket on a loop's thread.
///
/// If the system has no descriptors or memory left, it tries again after a tenth of a second.
package final class UnixAcceptor: Sendable {
    private let listener: UnixListener
    private let loop: EventLoop
    private let hasRoom: @Sendable () -> Bool
    private let welcome: @Sendable (consuming OwnedDescriptor) -> Void
    private let watch = Mutex<(registration: EventLoop.Registration, timer: EventLoop.Timer)?>(nil)

    /// Starts to accept.
    /// - Parameters:
    ///   - hasRoom: called before each connection. If it returns false, the system keeps further connections in its queue
    ///     until ``resume()``.
    ///   - welcome: receives a non-blocking connection.
    package init(
        _ listener: UnixListener, on loop: EventLoop, while hasRoom: @escaping @Sendable () -> Bool = { true },
        welcome: @escaping @Sendable (consuming OwnedDescriptor) -> Void
    ) throws(TunnelIOError) {
        self.listener = listener
        self.loop = loop
        self.hasRoom = hasRoom
        self.welcome = welcome
        let registration = try loop.register(listener.descriptor.number) { [weak self] _ in self?.accept() }
        let timer = loop.makeTimer { [weak self] in self?.resume() }
        watch.withLock { $0 = (registration, timer) }
    }

    /// Starts to accept again if accepting was paused.
    package func resume() { listen(for: .readable) }

    /// Stops accepting, and closes the listener. Safe to repeat.
    package func close() {
        let watch = watch.withLock { watch in
            defer { watch = nil }
            return watch
        }
        if let watch {
            loop.unregister(watch.registration)
            loop.remove(watch.timer)
        }
        listener.close()
    }

    private func accept() {
        while hasRoom() {
            switch listener.accept() {
            case .connection(let descriptor): welcome(descriptor)
            case .none: return
            case .exhausted:
                listen(for: [])
                if let timer = watch.withLock({ $0?.timer }) {
                    loop.set(timer, deadline: LaneClock.now() + 100_000_000)
                }
                return
            }
        }
        listen(for: [])
    }

    private func listen(for interest: EventLoop.Interest) {
        guard let registration = watch.withLock({ $0?.registration }) else { return }
        do throws(TunnelIOError) { try loop.modify(registration, interest: interest) } catch {}
    }
}
