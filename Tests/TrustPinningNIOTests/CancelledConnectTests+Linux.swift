// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import FoundationEssentials
    import Glibc
    import NIOConcurrencyHelpers
    import NIOCore
    import NIOPosix
    import Testing
    import TrustPinning
    import TunnelSystem

    @testable import TrustPinningNIO

    @Suite("Cancelled connects", .timeLimit(.minutes(2)))
    struct CancelledConnectTests {
        /// Returns this process's sockets, as texts with their inodes (proc_pid_fd(5)).
        private static func ownSockets() throws -> Set<String> {
            let files = FileManager.default
            return Set(
                try files.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
                    try? files.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
                })
        }

        /// Returns this process's sockets that are connecting or connected to a port (proc_net_tcp(5)).
        ///
        /// A program that another test starts has copies of all descriptors until it closes them, so the kernel's table
        /// alone also lists sockets that this process has closed. The table lacks rows if other sockets close while it is read.
        private static func sockets(to port: Int) throws -> (connecting: Set<String>, connected: Set<String>) {
            let file = OwnedDescriptor(SystemCall.open("/proc/self/net/tcp", O_RDONLY))
            let table = try #require(SystemCall.readAll(file.number, limit: 16 << 20))
            let digits = String(port, radix: 16, uppercase: true)
            let suffix = ":" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            let rows = String(decoding: table, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
            let own = try ownSockets()
            func sockets(_ state: String) -> Set<String> {
                let found = rows.filter { $0.count > 9 && $0[2].hasSuffix(suffix) && $0[3] == state }
                return own.intersection(found.map { "socket:[\($0[9])]" })
            }
            return (sockets("02"), sockets("01"))
        }

        private static func openSockets(to port: Int) throws -> Set<String> {
            let sockets = try sockets(to: port)
            return sockets.connecting.union(sockets.connected)
        }

        /// Starts a server that accepts no connection: the kernel queues a few, and drops the packets of the others.
        private static func fullServer() async throws -> any Channel {
            try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.backlog, value: 1)
                .serverChannelOption(.autoRead, value: false)
                .bind(host: "127.0.0.1", port: 0).get()
        }

        @Test("A cancelled connect returns its slot after its socket was closed")
        func slot() async throws {
            let full = try await Self.fullServer()
            defer { full.close(promise: nil) }
            let port = try #require(full.localAddress?.port)
            let loop = MultiThreadedEventLoopGroup.singleton.next()
            let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") }
            let connector = Connector(
                tls: tls, group: loop, connectTimeout: .seconds(300), keepAlive: .seconds(60), detours: [:])
            let key = tls.key(for: try #require(Endpoint(authority: "127.0.0.1:\(port)")))
            // All sockets of the attempts, once they are open.
            let all = NIOLockedValueBox<Set<String>>([])
            // Some of them wait for TLS, and the others for TCP.
            let attempts = (0..<6).map { _ in
                let left = loop.makePromise(of: Int.self)
                let events = Connector.Events(
                    onIdle: { _ in }, onClose: { _ in },
                    onUnused: {
                        left.completeWith(
                            Result { try Self.ownSockets().intersection(all.withLockedValue { $0 }).count })
                    })
                let task = Task { await connector.connect(key, deadline: .now() + .seconds(300), events: events) }
                return (task: task, left: left.futureResult)
            }
            #expect(
                try await eventually {
                    let open = try Self.openSockets(to: port)
                    all.withLockedValue { $0 = open }
                    return open.count == attempts.count
                })
            for (index, attempt) in attempts.enumerated() {
                attempt.task.cancel()
                guard case .failure(.cancelled) = await attempt.task.value else {
                    Issue.record("the connect was not cancelled")
                    continue
                }
                #expect(try await attempt.left.get() == attempts.count - 1 - index)
            }
        }

        @Test("A cancelled request closes its socket, and returns its slot")
        func sockets() async throws {
            let full = try await Self.fullServer()
            defer { full.close(promise: nil) }
            let port = try #require(full.localAddress?.port)
            var configuration = PinnedSession.Configuration()
            configuration.connectTimeout = .seconds(300)
            configuration.connectionsPerHost = 12
            try configuration.setDetour(from: "www.example.com:\(port)", to: "127.0.0.1:\(port)")
            let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") }
            let session = PinnedSession(tls: tls, configuration: configuration)
            let url = try #require(URL(string: "https://www.example.com:\(port)/"))
            let tasks = (0..<12).map { _ in Task { try await session.data(from: url) } }
            #expect(try await session.wait { _ in (try? Self.sockets(to: port).connecting.isEmpty) == false })
            for task in tasks { task.cancel() }
            for task in tasks { await #expect(throws: PinnedSessionError.cancelled) { try await task.value } }
            // Check slots first: a socket may close between the two checks, and no new one is opened.
            let open = session.connectionFigures.open
            #expect(try Self.openSockets(to: port).count <= open)
            #expect(try await session.wait { $0.open == 0 })
            #expect(try Self.openSockets(to: port).isEmpty)
        }
    }
#endif
