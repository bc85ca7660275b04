// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem

/// A channel to a ``UnixMessageServer`` in another process, over a socket in the file system.
///
/// Each request and each subscription has its own connection, so that a slow or cancelled one does not block the
/// others.
public final class UnixMessageChannel: SubscribableChannel {
    /// The socket.
    public let path: String
    private let maximumByteCount: Int
    private let trustedUsers: Set<UInt32>
    private let loop = Mutex<EventLoop?>(nil)

    /// Creates a channel, which connects at the first request.
    /// - Parameters:
    ///   - path: The server's socket.
    ///   - maximumByteCount: The largest reply to read.
    ///   - trustedUsers: The users who may serve the socket, besides root and the user of this process.
    public init(
        path: String, maximumByteCount: Int = MessageContainer.defaultMaximumByteCount, trustedUsers: Set<UInt32> = []
    ) {
        self.path = path
        self.maximumByteCount = maximumByteCount
        self.trustedUsers = trustedUsers.union([0, geteuid()])
    }

    deinit {
        loop.withLock { $0 }?.stop()
    }

    /// Sends a request on a new connection and waits for the reply.
    /// - Throws: A ``MessageError``: `.closed` if no process serves the socket or the server has closed, `.notPermitted`,
    ///   `.busy`, `.tooLarge`.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        let connection = try connect()
        defer { connection.close() }
        return try await withTaskCancellationHandler {
            await UnixMessageChannel.send(request, on: connection)
            do throws(MessageError) {
                guard let reply = try await connection.read() else { throw .closed }
                return reply
            } catch {
                guard case .tooLarge(_, let byteCount, let limit) = error else { throw error }
                throw MessageError.tooLarge(.reply, byteCount: byteCount, limit: limit)
            }
        } onCancel: {
            connection.close()
        }
    }

    /// Sends a request on a new connection, which stays open for the frames that answer it.
    /// - Throws: as ``exchange(_:)``.
    public func open(_ request: [UInt8]) async throws -> any MessageFrames {
        let connection = try connect()
        await withTaskCancellationHandler {
            await UnixMessageChannel.send(request, on: connection)
        } onCancel: {
            connection.close()
        }
        return UnixFrames(connection)
    }

    /// Sends a request and ignores errors: a server that refuses may close before it has read, and its answer can still
    /// be read.
    private static func send(_ request: [UInt8], on connection: FrameConnection) async {
        do throws(MessageError) {
            if try !connection.send(request) { _ = await connection.drained() }
        } catch {}
    }

    private func connect() throws(MessageError) -> FrameConnection {
        let socket: OwnedDescriptor
        do throws(SystemError) { socket = try UnixSocket.connect(to: path) } catch {
            switch error.errno {
            case ENOENT, ECONNREFUSED: throw .closed
            case EACCES, EPERM: throw .notPermitted("\(error)")
            case EAGAIN: throw .busy
            case ENAMETOOLONG: throw .channelFailed("\(UnixSocketError.invalidPath(path))")
            default: throw .channelFailed("\(error)")
            }
        }
        do throws(TunnelIOError) {
            let connection = try FrameConnection(socket, loop: runningLoop(), maximumByteCount: maximumByteCount)
            guard let user = connection.peerUser, trustedUsers.contains(user) else {
                connection.close()
                throw TunnelIOError(.socket(operation: "peer"), errno: EPERM)
            }
            return connection
        } catch {
            guard error.errno == EPERM else { throw .channelFailed("\(error)") }
            throw .notPermitted("\(path) is served by another user")
        }
    }

    private func runningLoop() throws(TunnelIOError) -> EventLoop {
        try loop.withLock { (loop) throws(TunnelIOError) in
            if let loop { return loop }
            let made = try EventLoop()
            try made.startThread(name: "messages")
            loop = made
            return made
        }
    }
}

private final class UnixFrames: MessageFrames {
    private let connection: FrameConnection

    init(_ connection: FrameConnection) {
        self.connection = connection
    }

    func next() async throws -> [UInt8]? {
        do throws(MessageError) {
            return try await connection.read()
        } catch {
            guard case .tooLarge(_, let byteCount, let limit) = error else { throw error }
            throw MessageError.tooLarge(.reply, byteCount: byteCount, limit: limit)
        }
    }

    func cancel() { connection.close() }

    deinit { connection.close() }
}
