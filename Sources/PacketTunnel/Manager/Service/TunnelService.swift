// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Lets other processes control a tunnel of this process through a socket. Their end is ``UnixTunnelChannel``.
///
/// Only root, the user of this process and the permitted users may connect.
public final class TunnelService: Sendable {
    /// The router of the service; handlers may be added.
    public let router: MessageRouter
    private let guestRouter: MessageRouter
    private let server: UnixMessageServer
    private let isClosing: Broadcast<Bool>

    /// Serves `host` at `path`; a missing folder is created with mode 0700.
    /// - Parameters:
    ///   - host: The tunnel.
    ///   - path: The socket.
    ///   - permittedUsers: The users who may connect, besides root and the user of this process.
    ///   - register: Adds handlers to the router before the socket exists. Messages without a handler go to the provider. A
    ///     handler with the name of one of the service's own messages (`culvert.tunnel.stop`) is never called.
    /// - Throws: `.alreadyRunning` if another process serves the socket, `.permissionDenied`, `.hostFailed`.
    public convenience init(
        host: any TunnelHost, path: String, permittedUsers: Set<UInt32> = [],
        register: (MessageRouter) -> Void = { _ in }
    ) throws(TunnelError) {
        try self.init(
            host: host, path: path, permittedUsers: permittedUsers, guests: [], register: register,
            registerForRestrictedUsers: { _ in })
    }

    /// Also permits users to follow the status, stop the tunnel, and send the messages that are registered for them; they
    /// cannot start it or send messages to the provider.
    package init(
        host: any TunnelHost, path: String, permittedUsers: Set<UInt32> = [], guests: Set<UInt32>,
        register: (MessageRouter) -> Void, registerForRestrictedUsers: (MessageRouter) -> Void
    ) throws(TunnelError) {
        // The host has its own deadline for a start.
        var limits = MessageRouter.Limits(handlerTimeout: nil)
        // A report about many peers is longer than any request, so replies have a higher limit.
        limits.maximumReplyByteCount = MessageContainer.localMaximumByteCount
        let router = MessageRouter(limits: limits)
        let guestRouter = MessageRouter(limits: limits)
        let isClosing = Broadcast(false)
        // Register the service's own handlers last, so that they replace others of the same name.
        register(router)
        registerForRestrictedUsers(guestRouter)
        for router in [router, guestRouter] { Self.registerForAll(router, host, isClosing) }
        Self.register(router, host)
        do throws(UnixSocketError) {
            server = try UnixMessageServer(
                configuration: UnixMessageServer.Configuration(path: path, permittedUsers: permittedUsers),
                router: router, guests: UnixMessageServer.RestrictedUsers(users: guests, router: guestRouter))
        } catch {
            throw TunnelError(error)
        }
        self.router = router
        self.guestRouter = guestRouter
        self.isClosing = isClosing
    }

    deinit {
        isClosing.finish(with: true)
        server.close()
    }

    /// The prefixes of message names that the service never passes to the provider.
    private static let prefixes = ["culvert.tunnel.", "culvert.service."]

    private static func registerForAll(
        _ router: MessageRouter, _ host: any TunnelHost, _ isClosing: Broadcast<Bool>
    ) {
        router.on(TunnelStatusSubscription.self) { _, sink in
            let told = try await send(host.statusUpdates(), to: sink, until: isClosing)
            // The service may have closed before it sent the last status.
            if let told, told != host.status { try await sink.send(host.status) }
        }
        router.on(TunnelStopMessage.self) { message in
            await host.stop(message.reason)
            return TunnelStopMessage.Reply()
        }
    }

    private static func register(_ router: MessageRouter, _ host: any TunnelHost) {
        router.on(TunnelStartMessage.self) { message in
            do throws(TunnelError) {
                try await host.start(message.request)
                return TunnelStartMessage.Reply(error: nil)
            } catch {
                return TunnelStartMessage.Reply(error: error)
            }
        }
        router.on(TunnelProviderMessage.self) { message in
            do throws(TunnelError) {
                let answer = try await host.sendMessage(Array(message.message))
                return TunnelProviderMessage.Reply(answer: answer.map { Data($0) }, error: nil)
            } catch {
                return TunnelProviderMessage.Reply(answer: nil, error: error)
            }
        }
        router.otherwise { message in
            // A message of a later version of the service.
            if let name = MessageContainer.name(in: message), Self.prefixes.contains(where: { name.hasPrefix($0) }) {
                throw MessageError.noHandler(name: name)
            }
            return try await host.sendMessage(message)
        }
    }

    /// Sends every status until the stream ends or the service closes.
    /// - Returns: The last sent status.
    private static func send(
        _ statuses: AsyncStream<TunnelStatusUpdate>, to sink: SubscriptionSink<TunnelStatusUpdate>,
        until isClosing: Broadcast<Bool>
    ) async throws -> TunnelStatusUpdate? {
        try await withThrowingTaskGroup(of: TunnelStatusUpdate?.self) { group in
            group.addTask {
                var last: TunnelStatusUpdate?
                for await update in statuses where update != last {
                    try await sink.send(update)
                    last = update
                }
                return last
            }
            group.addTask {
                for await isClosing in isClosing.follow() where isClosing { break }
                return nil
            }
            var last: TunnelStatusUpdate?
            // The first task that ends cancels the other.
            while let update = try await group.next() {
                group.cancelAll()
                last = update ?? last
            }
            return last
        }
    }

    /// Ends the service: removes its socket, sends the last status to every follower, and answers pending requests. At
    /// the time limit it disconnects the clients that are still waiting. It may be called repeatedly.
    public func close(within limit: Duration = .seconds(5)) async {
        isClosing.finish(with: true)
        await server.close(within: limit)
        router.close()
        guestRouter.close()
    }
}

extension TunnelError {
    /// The error for a service whose socket cannot be reached.
    init(_ error: UnixSocketError) {
        switch error {
        case .alreadyRunning(let path):
            self.init(.alreadyRunning, "another process serves \(path)", fix: "stop that tunnel first")
        case .unsafeFolder(let path):
            self.init(.permissionDenied, error.description, fix: "take the others' right to write to \(path)")
        case .system(_, _, let errno) where errno == 1 || errno == 13:
            // EPERM and EACCES have these numbers on every system.
            self.init(.permissionDenied, error.description, fix: "run as root")
        default: self.init(.hostFailed, error.description)
        }
    }
}
