// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The management socket that `wg` speaks to: accepts connections on an event loop and runs their operations.
///
/// Many operations per connection are answered in order, also when they come in one piece or byte by byte. A connection
/// that does not read its replies is not read from, so that it cannot make this process grow.
final class UAPIServer: Sendable {
    private struct State {
        var connections: [Int32: UAPIConnection] = [:]
        var registration: EventLoop.Registration?
        var watchRegistration: EventLoop.Registration?
        var isClosed = false
    }

    private let listener: UnixListener
    private let loop: EventLoop
    /// Connections beyond this many wait until one of the others ends.
    private let maximumConnections: Int
    private let makeSession: @Sendable () -> UAPISession
    private let state = Mutex(State())
    /// The file that is watched; its removal ends the device.
    private let watch: SocketFileWatch?
    private let isRemovalReported = OnceFlag()
    private let retryTimer = Mutex<EventLoop.Timer?>(nil)

    private final class OnceFlag: Sendable {
        let flag = Atomic(false)
    }

    /// Serves `listener` on `loop`.
    /// - Parameters:
    ///   - maximumConnections: connections beyond this many wait until one of the others ends.
    ///   - makeSession: makes the parser and executor of one connection.
    ///   - onRemoval: called once when the socket's file is removed.
    init(
        listener: UnixListener, loop: EventLoop, maximumConnections: Int = ManagementLimits().connections,
        makeSession: @escaping @Sendable () -> UAPISession,
        onRemoval: @escaping @Sendable () -> Void
    ) throws(TunnelIOError) {
        self.listener = listener
        self.loop = loop
        self.maximumConnections = maximumConnections
        self.makeSession = makeSession
        watch = try listener.path.map { path throws(TunnelIOError) in
            try SocketFileWatch(path: path, identity: listener.identity)
        }
        let registration = try loop.register(listener.descriptor, for: .readable) { [weak self] _ in self?.accept() }
        var watchRegistration: EventLoop.Registration?
        if let watch {
            let isReported = isRemovalReported
            watchRegistration = try loop.register(watch.readiness, for: .readable) { _ in
                if watch.isRemoved(), !isReported.flag.exchange(true, ordering: .relaxed) { onRemoval() }
            }
        }
        state.withLock {
            $0.registration = registration
            $0.watchRegistration = watchRegistration
        }
    }

    /// Ends all connections and removes the socket's file.
    func close() {
        let (registrations, connections) = state.withLock { state in
            state.isClosed = true
            defer {
                state.connections = [:]
                state.registration = nil
                state.watchRegistration = nil
            }
            return ([state.registration, state.watchRegistration].compactMap { $0 }, Array(state.connections.values))
        }
        for registration in registrations { loop.unregister(registration) }
        for connection in connections { connection.close() }
        listener.close()
    }

    private func accept() {
        while true {
            let isFull = state.withLock { $0.connections.count >= maximumConnections || $0.isClosed }
            guard !isFull else {
                pause()
                return
            }
            switch listener.accept() {
            case .none: return
            case .exhausted:
                pause()
                retryLater()
                return
            case .connection(let descriptor):
                let connection = UAPIConnection(
                    descriptor: descriptor, loop: loop, session: makeSession()
                ) { [weak self] in
                    self?.forget(descriptor)
                }
                let isClosed = state.withLock { state in
                    if !state.isClosed { state.connections[descriptor] = connection }
                    return state.isClosed
                }
                if isClosed { connection.close() } else { connection.start() }
            }
        }
    }

    /// Accepts again in a tenth of a second: by then descriptors may be free, whoever had them.
    private func retryLater() {
        let timer = retryTimer.withLock { timer in
            if let timer { return timer }
            let made = loop.makeTimer { [weak self] in self?.resume() }
            timer = made
            return made
        }
        loop.set(timer, deadline: LaneClock.now() + 100_000_000)
    }

    private func resume() {
        guard let registration = state.withLock({ $0.registration }) else { return }
        do throws(TunnelIOError) { try loop.modify(registration, interest: .readable) } catch {}
    }

    /// Stops accepting until a connection ends; the system keeps the rest in its queue.
    private func pause() {
        guard let registration = state.withLock({ $0.registration }) else { return }
        do throws(TunnelIOError) { try loop.modify(registration, interest: []) } catch {}
    }

    private func forget(_ descriptor: Int32) {
        let registration = state.withLock { state -> EventLoop.Registration? in
            state.connections[descriptor] = nil
            return state.registration
        }
        guard let registration else { return }
        do throws(TunnelIOError) { try loop.modify(registration, interest: .readable) } catch {}
    }
}
