// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem

/// Answers messages on a socket in the file system with a ``MessageRouter``.
///
/// Only root, the user of this process and the permitted users may connect. The mode of the file restricts this, and
/// the kernel reports the user of each peer. The server disconnects a client that sends nothing or does not read within
/// a time limit. If a client disconnects, its handler is cancelled. The server replaces the socket of a dead process,
/// but not that of a live one.
public final class UnixMessageServer: Sendable {
    /// The configuration of a server.
    public struct Configuration: Sendable {
        /// The path of the socket. A missing folder is created with mode 0700.
        public var path: String
        /// The users who may connect, besides root and the user of this process. If there are any, the socket has mode
        /// 0666, and only the server's check keeps other users out.
        public var permittedUsers: Set<UInt32>
        /// The largest number of concurrent connections; more get `busy`.
        public var maximumClients: Int
        /// The largest request that is read.
        public var maximumByteCount: Int
        /// The time limit for a client to send its request, and to read its answers.
        public var stallTimeout: Duration

        /// Creates a configuration. The defaults are 32 clients, only root and the user of this process, and 10 s.
        public init(
            path: String, permittedUsers: Set<UInt32> = [], maximumClients: Int = 32,
            maximumByteCount: Int = MessageContainer.defaultMaximumByteCount, stallTimeout: Duration = .seconds(10)
        ) {
            self.path = path
            self.permittedUsers = permittedUsers
            self.maximumClients = maximumClients
            self.maximumByteCount = maximumByteCount
            self.stallTimeout = stallTimeout
        }
    }

    /// Users with fewer permissions, who have a separate router.
    struct RestrictedUsers {
        var users: Set<UInt32>
        /// The router that answers these users.
        var router: MessageRouter
        /// The largest number of their concurrent connections, so that they do not block other users.
        var maximumClients = 8
    }

    private struct Client {
        var connection: FrameConnection
        var isGuest: Bool
        var task: Task<Void, Never>?
    }

    private struct State {
        var clients: [UInt64: Client] = [:]
        var nextKey: UInt64 = 0
        var isClosed = false
    }

    private let configuration: Configuration
    private let router: MessageRouter
    private let guests: RestrictedUsers?
    private let clock: any Clock<Duration>
    private let loop: EventLoop
    private let users: Set<UInt32>
    private let state = Mutex(State())
    private let counts = Broadcast(0)
    private let acceptor = Mutex<UnixAcceptor?>(nil)

    /// Binds the socket and starts to answer.
    /// - Parameters:
    ///   - configuration: The socket, and the limits of clients.
    ///   - router: Answers requests.
    ///   - clock: The clock of the clients' time limits.
    /// - Throws: The reason that the socket cannot be served.
    public convenience init(
        configuration: Configuration, router: MessageRouter, clock: any Clock<Duration> = ContinuousClock()
    ) throws(UnixSocketError) {
        try self.init(configuration: configuration, router: router, guests: nil, clock: clock)
    }

    /// Creates a server that also accepts users with fewer permissions.
    init(
        configuration: Configuration, router: MessageRouter, guests: RestrictedUsers?,
        clock: any Clock<Duration> = ContinuousClock()
    ) throws(UnixSocketError) {
        self.guests = guests
        self.configuration = configuration
        self.router = router
        self.clock = clock
        users = configuration.permittedUsers.union([0, geteuid()])
        let listener: UnixListener
        do throws(UnixListener.Failure) {
            listener = try UnixListener(
                path: configuration.path, isGuarded: true,
                isForAll: !configuration.permittedUsers.isEmpty || guests?.users.isEmpty == false)
        } catch {
            throw UnixSocketError(error, path: configuration.path)
        }
        do throws(TunnelIOError) {
            loop = try EventLoop()
        } catch {
            throw .system(path: configuration.path, operation: "event loop", errno: error.errno)
        }
        do throws(TunnelIOError) {
            let made = try UnixAcceptor(listener, on: loop) { [weak self] descriptor in self?.welcome(descriptor) }
            acceptor.withLock { $0 = made }
            try loop.startThread(name: "message server")
        } catch {
            throw .system(path: configuration.path, operation: "event loop", errno: error.errno)
        }
    }

    deinit { close() }

    /// The number of connected clients.
    public var clientCount: Int { state.withLock(\.clients.count) }

    /// The number of clients, now and after each change.
    package func clientCounts() -> AsyncStream<Int> { counts.follow() }

    /// Disconnects all clients, removes the socket and refuses new clients. It may be called repeatedly.
    public func close() {
        let clients = state.withLock { state in
            state.isClosed = true
            counts.finish(with: 0)
            defer { state.clients = [:] }
            return state.clients
        }
        acceptor.withLock { $0 }?.close()
        for client in clients.values {
            client.connection.close()
            client.task?.cancel()
        }
        loop.stop()
    }

    /// Removes the socket, refuses new clients and waits until the present ones have their answers. Disconnects the
    /// remaining ones at the time limit. It may be called repeatedly.
    /// - Parameter limit: The time limit.
    public func close(within limit: Duration) async {
        let tasks = state.withLock { state in
            state.isClosed = true
            return state.clients.values.compactMap(\.task)
        }
        acceptor.withLock { $0 }?.close()
        _ = await withDeadline(limit, clock: clock) {
            for task in tasks { await task.value }
        }
        close()
    }

    // MARK: - Accepting, on the loop's thread

    private func welcome(_ descriptor: consuming OwnedDescriptor) {
        let connection: FrameConnection
        do throws(TunnelIOError) {
            connection = try FrameConnection(
                descriptor, loop: loop, maximumByteCount: configuration.maximumByteCount)
        } catch {
            return
        }
        let user = connection.peerUser
        let isGuest = user.map { !users.contains($0) } ?? true
        guard let user, !isGuest || guests?.users.contains(user) == true else {
            refuse(connection, .notPermitted("this user may not control the tunnel"))
            return
        }
        let key = state.withLock { state -> UInt64? in
            guard !state.isClosed, state.clients.count < configuration.maximumClients else { return nil }
            if isGuest, state.clients.values.count(where: \.isGuest) >= guests?.maximumClients ?? 0 { return nil }
            state.nextKey += 1
            state.clients[state.nextKey] = Client(connection: connection, isGuest: isGuest)
            counts.send(state.clients.count)
            return state.nextKey
        }
        guard let key else {
            refuse(connection, .busy)
            return
        }
        let router = (isGuest ? guests?.router : nil) ?? router
        let task = Task { [weak self] in
            await self?.serve(connection, router)
            connection.close()
            self?.forget(key)
        }
        state.withLock { $0.clients[key]?.task = task }
        connection.onEnd { task.cancel() }
    }

    /// Sends an error without waiting: it fits into the buffer of a new socket.
    private func refuse(_ connection: FrameConnection, _ error: MessageError) {
        do throws(MessageError) { _ = try connection.send(MessageRouter.failure(error, of: nil)) } catch {}
        connection.close()
    }

    private func forget(_ key: UInt64) {
        state.withLock { state in
            state.clients[key] = nil
            counts.send(state.clients.count)
        }
    }

    // MARK: - One client, in its own task

    private func serve(_ connection: FrameConnection, _ router: MessageRouter) async {
        let outcome = await withDeadline(configuration.stallTimeout, clock: clock) {
            () async -> Result<[UInt8]?, MessageError> in
            do throws(MessageError) { return .success(try await connection.read()) } catch { return .failure(error) }
        }
        guard case .finished(let result) = outcome else { return }
        let (clock, stallTimeout) = (clock, configuration.stallTimeout)
        let send: @Sendable ([UInt8]) async throws -> Void = { frame in
            guard try !connection.send(frame) else { return }
            let outcome = await withDeadline(stallTimeout, clock: clock) { await connection.drained() }
            guard case .finished(true) = outcome else {
                connection.close()
                throw MessageError.closed
            }
        }
        switch result {
        case .success(nil): return
        case .success(let request?): await router.serve(request, send: send)
        case .failure(let error):
            do { try await send(MessageRouter.failure(error, of: nil)) } catch {}
        }
    }
}
