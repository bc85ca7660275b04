// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import HummingbirdCore
import HummingbirdTLS
package import Logging
import NIOCore
import NIOPosix
package import NIOSSL
package import PacketTunnelLinux
package import Provisioning
import Synchronization
package import TunnelSystem

/// One listening socket, with its limits and the handler of its requests.
package final class HTTPListener: Sendable {
    /// The address of a listener.
    package enum Place: Sendable {
        case address(String, port: Int)
        /// A bound socket. It is closed with its listener.
        case unix(UnixListener)
    }

    /// Serves the connections of one socket in a group, until the socket is closed. Returns the error that ended it, if any.
    private typealias Serve = @Sendable (inout DiscardingTaskGroup) async -> (any Error)?

    private enum State {
        case idle
        case open(any Channel, serve: Serve)
        case closed
    }

    package let name: String
    private let place: Place
    private let tls: TLSConfiguration?
    private let limits: HTTPLimits
    private let table: ConnectionTable
    private let responder: any HTTPAnswering
    private let logger: Logger
    private let trouble: ListenerTrouble
    private let state = Mutex(State.idle)
    /// The port of the first socket; 0 if there is none.
    private let boundPort = Mutex(0)

    /// - Parameters:
    ///   - name: The name of the listener in the log.
    ///   - tls: The TLS settings; `nil` for plain HTTP.
    package init(
        name: String, place: Place, tls: TLSConfiguration?, limits: HTTPLimits = HTTPLimits(),
        responder: any HTTPAnswering, logger: Logger
    ) {
        self.name = name
        self.place = place
        self.tls = tls
        self.limits = limits
        table = ConnectionTable(limits)
        self.responder = responder
        self.logger = logger
        trouble = ListenerTrouble(name: name, quiet: limits.recovery, logger: logger)
    }

    /// The number of current connections.
    package var connectionCount: Int { table.count }

    /// The failure to accept connections; `nil` if there has been none for a while.
    package var problem: NetworkProblem? { trouble.problem }

    /// The listening socket; `nil` before ``open()`` and after ``stop(within:)``.
    var channel: (any Channel)? {
        if case .open(let channel, _) = state.withLock({ $0 }) { channel } else { nil }
    }

    private var isStopped: Bool {
        if case .closed = state.withLock({ $0 }) { true } else { false }
    }

    /// Binds and listens. Requests wait until ``run()``.
    /// - Returns: The port.
    @discardableResult
    package func open() async throws(ListenerError) -> Int {
        do {
            let channel = WatchedChannel(limits: limits, responder: answer) { [limits, table, responder, name] in
                RequestWatch(limits, table) { responder.refused(by: name, $0, $1) }
            }
            if let tls {
                return try await open(TLSChannel(channel, tlsConfiguration: tls))
            } else {
                return try await open(channel)
            }
        } catch {
            throw ListenerError(name: name, place: place, error)
        }
    }

    private func open(_ child: some ServerChildChannel) async throws -> Int {
        let logger = logger
        let isStopped: @Sendable () -> Bool = { [weak self] in self?.isStopped ?? true }
        var bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .serverChannelInitializer { [name, trouble] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptPause(name: name, trouble, isStopped: isStopped))
                }
            }
        if case .address(let host, _) = place, host.contains(":") {
            // Restrict the socket to IPv6, because IPv4 has a separate listener.
            bootstrap = bootstrap.serverChannelOption(
                ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only), value: 1)
        }
        let initializer = { @Sendable (channel: any Channel) in child.setup(channel: channel, logger: logger) }
        let server =
            switch place {
            case .address(let host, let port):
                try await bootstrap.bind(
                    host: host, port: port == 0 ? boundPort.withLock { $0 } : port, childChannelInitializer: initializer
                )
            case .unix(let listener):
                // Pass a copy of the descriptor, because NIO closes it.
                try await bootstrap.bind(
                    try listener.duplicate(), cleanupExistingSocketFile: false, childChannelInitializer: initializer)
            }
        let port = server.channel.localAddress?.port ?? 0
        boundPort.withLock { $0 = port }
        let serve: Serve = { group in
            do {
                try await server.executeThenClose { connections in
                    for try await connection in connections {
                        group.addTask { await child.handle(value: connection, logger: logger) }
                    }
                }
                return nil
            } catch {
                return error
            }
        }
        let wasStopped = state.withLock { state in
            if case .closed = state { return true }
            state = .open(server.channel, serve: serve)
            return false
        }
        if wasStopped {
            // The listener was stopped during the call. End the connections that the socket has accepted.
            await Self.close(server.channel)
            await withDiscardingTaskGroup { group in _ = await serve(&group) }
        }
        return port
    }

    @concurrent
    private func answer(
        _ request: Request, _ writer: consuming ResponseWriter, _ channel: any Channel
    ) async throws {
        let source =
            if let user = await PeerUser.user(of: channel) { RequestSource.process(user: user) } else {
                RequestSource(channel.remoteAddress)
            }
        let response = await responder.answer(request, from: source, limits: limits)
        try await writer.write(response: response.head, body: response.body)
    }

    /// Serves until ``stop(within:)`` or the end of the task. If the system closes the socket, it opens a new one.
    package func run() async {
        await withDiscardingTaskGroup { group in
            while case .open(_, let serve) = state.withLock({ $0 }) {
                let error = await serve(&group)
                guard !Task.isCancelled, !isStopped, await reopen(after: error) else { return }
            }
        }
    }

    /// Opens a new socket in place of one that the system has closed. Existing connections continue.
    /// - Returns: `false` if the listener was stopped, or the task cancelled.
    private func reopen(after error: (any Error)?) async -> Bool {
        if let error {
            trouble.report("the \(name) has stopped listening: \(ListenerError.reason(error))", .error)
        } else if trouble.problem == nil {
            trouble.report("the \(name) has stopped listening", .error)
        }
        while (try? await Task.sleep(for: trouble.nextDelay())) != nil, !isStopped {
            do throws(ListenerError) {
                try await open()
                return !isStopped
            } catch {
                trouble.report("\(error)", .error)
            }
        }
        return false
    }

    /// Accepts no more connections, waits for the requests in progress, then ends the remaining connections.
    package func stop(within limit: Duration) async {
        let state = state.withLock { state in
            defer { state = .closed }
            return state
        }
        trouble.clear()
        guard case .open(let channel, _) = state else { return }
        await Self.close(channel)
        table.drain()
        let end = ContinuousClock.now + limit
        while table.count > 0, ContinuousClock.now < end {
            guard (try? await Task.sleep(for: .milliseconds(20))) != nil else { break }
        }
        table.close()
        if case .unix(let listener) = place { listener.close() }
    }

    /// Closes a listening socket.
    private static func close(_ channel: any Channel) async {
        // Stop accepting first: NIO stops the process if a connection is accepted while the channel closes, because no
        // task reads the connection.
        try? await channel.setOption(ChannelOptions.autoRead, value: false).get()
        for _ in 0..<2 {
            for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() { try? await loop.submit {}.get() }
        }
        try? await channel.close()
    }
}

/// Answers the requests of a listener.
package protocol HTTPAnswering: Sendable {
    /// Returns the response to one request. An error is also returned as a response.
    func answer(_ request: Request, from source: RequestSource, limits: HTTPLimits) async -> Response

    /// Reports a connection that was refused before it became a request.
    func refused(by listener: String, _ source: RequestSource, _ code: ProblemDetails.Code)
}

/// The error of a listener that cannot be opened.
package struct ListenerError: Error, CustomStringConvertible {
    package var description: String
    /// The system's error number; 0 if there is none.
    package var errno: Int32

    /// Whether the host has no address of this family.
    package var isMissingFamily: Bool { errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL }

    init(name: String, place: HTTPListener.Place, _ error: any Error) {
        let text =
            switch place {
            case .address(let host, let port): "\(host) port \(port)"
            case .unix(let listener): listener.path ?? "a socket"
            }
        errno = (error as? IOError)?.errnoCode ?? 0
        description = "the \(name) cannot listen at \(text): \(Self.reason(error))"
    }

    /// The cause of a socket's failure, as text for users.
    static func reason(_ error: any Error) -> String {
        let number = (error as? IOError)?.errnoCode ?? 0
        return number != 0 ? SystemError.words(number) : "\(error)"
    }
}
