// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import FoundationEssentials
    import Glibc
    import NIOCore
    import NIOPosix
    import Testing
    import TrustPinning
    import TunnelSystem

    @testable import TrustPinningNIO

    @Suite("Cancelled connects")
    struct CancelledConnectTests {
        /// The sockets of this network namespace that are connecting or connected to a port (proc_net_tcp(5)).
        private static func sockets(to port: Int) throws -> (connecting: Int, connected: Int) {
            let file = OwnedDescriptor(SystemCall.open("/proc/self/net/tcp", O_RDONLY))
            let table = try #require(SystemCall.readAll(file.number, limit: 16 << 20))
            let digits = String(port, radix: 16, uppercase: true)
            let suffix = ":" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            let rows = String(decoding: table, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
            let states = rows.filter { $0.count > 3 && $0[2].hasSuffix(suffix) }.map { $0[3] }
            return (states.count { $0 == "02" }, states.count { $0 == "01" })
        }

        @Test("A cancelled connect closes its socket, and has its slot until then")
        func sockets() async throws {
            // Accepts nothing: the kernel queues a few connections, and drops the packets of the others.
            let full = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.backlog, value: 1)
                .serverChannelOption(.autoRead, value: false)
                .bind(host: "127.0.0.1", port: 0).get()
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
            #expect(try await session.wait { _ in (try? Self.sockets(to: port).connecting) ?? 0 > 0 })
            for task in tasks { task.cancel() }
            for task in tasks { await #expect(throws: PinnedSessionError.cancelled) { try await task.value } }
            // Slots first: a socket may be closed between the two, and no new one is opened.
            let open = session.connectionFigures.open
            let sockets = try Self.sockets(to: port)
            #expect(sockets.connecting + sockets.connected <= open)
            #expect(try await session.wait { $0.open == 0 })
            #expect(try Self.sockets(to: port).connecting == 0)
            #expect(try Self.sockets(to: port).connected == 0)
        }
    }
#endif
