// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelIO
import TunnelSystem

/// The management socket for `wg`: accepts connections on an event loop and runs their operations.
///
/// The operations of a connection are answered in order, however their bytes are divided. If a client does not read its
/// replies, the server stops reading from it, so that the client cannot increase the memory of this process.
final class UAPIServer: Sendable {
    private struct State {
        var connections: [Int32: UAPIConnection] = [:]
        var acceptor: UnixAcceptor?
        var watchRegistration: EventLoop.Registration?
        var isClosed = false
        /// The timer that ends an idle connection while another client waits.
        var timer: EventLoop.Timer?
    }

    private let loop: EventLoop
    private let maximumConnections: Int
    private let makeSession: @Sendable () -> UAPISession
    private let state = Mutex(State())
    /// The watch of the socket's file. Its removal closes the device.
    private let watch: SocketFileWatch?
    private let isRemovalReported = OnceFlag()

    private final class OnceFlag: Sendable {
        let flag = Atomic(false)
    }

    /// Serves `listener` on `loop`.
    /// - Parameters:
    ///   - maximumConnections: The maximum number of connections. Further ones wait until one of them ends, or has been
    ///     idle for long enough.
    ///   - makeSession: Makes the parser and executor of a connection.
    ///   - onRemoval: Called once when the socket's file was removed.
    init(
        listener: UnixListener, loop: EventLoop, maximumConnections: Int = ManagementLimits().connections,
        makeSession: @escaping @Sendable () -> UAPISession,
        onRemoval: @escaping @Sendable () -> Void
    ) throws(TunnelIOError) {
        self.loop = loop
        self.maximumConnections = maximumConnections
        self.makeSession = makeSession
        watch = try listener.path.map { path throws(TunnelIOError) in
            try SocketFileWatch(path: path, identity: listener.identity)
        }
        let acceptor = try UnixAcceptor(listener, on: loop) { [weak self] in
            self?.hasRoom() ?? false
        } welcome: { [weak self] descriptor in
            self?.serve(descriptor)
        }
        var watchRegistration: EventLoop.Registration?
        if let watch {
            let isReported = isRemovalReported
            watchRegistration = try loop.register(watch.readiness, for: .readable) { _ in
                if watch.isRemoved(), !isReported.flag.exchange(true, ordering: .relaxed) { onRemoval() }
            }
        }
        let timer = loop.makeTimer { [weak self] in self?.state.withLock(\.acceptor)?.resume() }
        state.withLock {
            $0.acceptor = acceptor
            $0.watchRegistration = watchRegistration
            $0.timer = timer
        }
    }

    /// Ends all connections and removes the socket's file.
    func close() {
        let (acceptor, watch, timer, connections) = state.withLock { state in
            state.isClosed = true
            defer {
                state.connections = [:]
                state.acceptor = nil
                state.watchRegistration = nil
                state.timer = nil
            }
            return (state.acceptor, state.watchRegistration, state.timer, Array(state.connections.values))
        }
        if let timer { loop.remove(timer) }
        if let watch { loop.unregister(watch) }
        for connection in connections { connection.close() }
        acceptor?.close()
    }

    /// Whether another connection can be accepted. If not, this ends the connection that was idle for longest, or sets
    /// the timer for that.
    ///
    /// Otherwise a program that keeps connections open without requests could lock out `wg`.
    private func hasRoom() -> Bool {
        enum Room { case free, none, idle(UAPIConnection), later(EventLoop.Timer?, Int64) }
        let now = LaneClock.now()
        let room = state.withLock { state -> Room in
            guard !state.isClosed else { return .none }
            guard state.connections.count >= maximumConnections else { return .free }
            let first = state.connections.values.map { (end: $0.idleEnd, connection: $0) }.min { $0.end < $1.end }
            guard let first else { return .none }
            return first.end <= now ? .idle(first.connection) : .later(state.timer, first.end)
        }
        switch room {
        case .free: return true
        case .none: return false
        case .idle(let connection):
            connection.close()
            return true
        case .later(let timer, let end):
            if let timer { loop.set(timer, deadline: end) }
            return false
        }
    }

    private func serve(_ descriptor: consuming OwnedDescriptor) {
        let number = descriptor.release()
        let connection = UAPIConnection(descriptor: number, loop: loop, session: makeSession()) { [weak self] in
            self?.forget(number)
        }
        let isClosed = state.withLock { state in
            if !state.isClosed { state.connections[number] = connection }
            return state.isClosed
        }
        if isClosed { connection.close() } else { connection.start() }
    }

    private func forget(_ descriptor: Int32) {
        let acceptor = state.withLock { state in
            state.connections[descriptor] = nil
            return state.acceptor
        }
        acceptor?.resume()
    }
}
