// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelIO
import TunnelSystem

/// The management socket that `wg` speaks to: accepts connections on an event loop and runs their operations.
///
/// Many operations per connection are answered in order, also when they come in one piece or byte by byte. A connection
/// that does not read its replies is not read from, so that it cannot make this process grow.
final class UAPIServer: Sendable {
    private struct State {
        var connections: [Int32: UAPIConnection] = [:]
        var acceptor: UnixAcceptor?
        var watchRegistration: EventLoop.Registration?
        var isClosed = false
    }

    private let loop: EventLoop
    private let makeSession: @Sendable () -> UAPISession
    private let state = Mutex(State())
    /// The file that is watched; its removal ends the device.
    private let watch: SocketFileWatch?
    private let isRemovalReported = OnceFlag()

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
        self.loop = loop
        self.makeSession = makeSession
        watch = try listener.path.map { path throws(TunnelIOError) in
            try SocketFileWatch(path: path, identity: listener.identity)
        }
        let acceptor = try UnixAcceptor(listener, on: loop) { [weak self] in
            self?.state.withLock { $0.connections.count < maximumConnections && !$0.isClosed } ?? false
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
        state.withLock {
            $0.acceptor = acceptor
            $0.watchRegistration = watchRegistration
        }
    }

    /// Ends all connections and removes the socket's file.
    func close() {
        let (acceptor, watch, connections) = state.withLock { state in
            state.isClosed = true
            defer {
                state.connections = [:]
                state.acceptor = nil
                state.watchRegistration = nil
            }
            return (state.acceptor, state.watchRegistration, Array(state.connections.values))
        }
        if let watch { loop.unregister(watch) }
        for connection in connections { connection.close() }
        acceptor?.close()
    }

    private func serve(_ descriptor: consuming OwnedDescriptor) {
        let number = descriptor.take()
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
