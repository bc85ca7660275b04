// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite("A provider in the Linux host", .timeLimit(.minutes(5)))
        struct ProviderTests {
            private func host(
                _ world: LinuxHostWorld, _ events: PingProvider.Events
            ) throws -> LinuxHost<PingProvider> {
                try world.host.perform {
                    try LinuxHost(
                        name: LinuxHostWorld.tunnel, options: world.options,
                        makeProvider: { PingProvider(events) })
                }
            }

            @Test(
                "Start, traffic in both directions, stop: packets are counted, and the network is restored",
                arguments: LeakPolicy.allCases)
            func wholeLife(_ policy: LeakPolicy) async throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let events = PingProvider.Events()
                let host = try host(world, events)
                for _ in 0..<2 {
                    try await host.start(LinuxHostWorld.settings(policy, local: false), leakPolicy: policy)
                    #expect(host.status.status == .connected)
                    #expect(events.mark.withLock { $0 } == 51_821)
                    try world.host.run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", "8.8.8.8")
                    try world.host.run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", "fd55::1")
                    #expect(try await host.sendMessage([1]) == [1, 1])
                    await host.stop(.userInitiated)
                    #expect(host.status.status == .disconnected)
                    try world.expectUnchanged(since: before)
                }
                #expect(events.answered.load(ordering: .relaxed) == 12)
            }

            @Test("Settings that the system refuses end the start with a typed error, and nothing is left")
            func refusedSettings() async throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let host = try host(world, PingProvider.Events())
                var settings = try LinuxHostWorld.settings(.enforcedRoutes, local: false)
                settings.dns = DNSSettings(
                    servers: [try IPAddress("10.9.0.1")], matchDomains: ["a.example"])
                let strict = try world.host.perform {
                    var options = world.options
                    options.nameServers = .required
                    return try LinuxHost(
                        name: LinuxHostWorld.tunnel, options: options,
                        makeProvider: { PingProvider(PingProvider.Events()) })
                }
                // Only systemd-resolved supports split DNS, and it does not run here.
                await #expect(throws: TunnelError.self) { try await strict.start(settings) }
                await strict.stop(.userInitiated)
                #expect(strict.status.status == .disconnected)
                try world.expectUnchanged(since: before)
                settings.dns = nil
                try await host.start(settings)
                await host.stop(.userInitiated)
                try world.expectUnchanged(since: before)
            }

            @Test("The provider is notified of network paths that appear and disappear")
            func pathChanges() async throws {
                let world = try LinuxHostWorld()
                let events = PingProvider.Events()
                let host = try host(world, events)
                try await host.start(LinuxHostWorld.settings(.routeBased, local: true))
                var paths = events.paths.stream.makeAsyncIterator()
                try world.host.run("ip", "-6", "route", "delete", "default")
                let first = try #require(await paths.next())
                #expect(first.status == .satisfied && first.supportsIPv4 && !first.supportsIPv6)
                #expect(first.interfaces.map(\.name) == ["eth0"])
                #expect(first.primaryKind == .ethernet)
                try world.host.run("ip", "link", "set", "eth0", "down")
                var path = try #require(await paths.next())
                while path.status == .satisfied { path = try #require(await paths.next()) }
                #expect(path == .unsatisfied)
                #expect(path.dnsServers.isEmpty)
                try world.host.run("ip", "link", "set", "eth0", "up")
                try world.host.run("ip", "route", "add", "default", "via", "192.0.2.1")
                path = try #require(await paths.next())
                while path.status != .satisfied { path = try #require(await paths.next()) }
                #expect(path.supportsIPv4)
                await host.stop(.userInitiated)
            }
        }
    }

    /// A tunnel to hosts that answer every ping.
    final class PingProvider: PacketTunnelProvider {
        typealias Configuration = TunnelSettings

        /// The events that tests observe.
        final class Events: Sendable {
            let answered = Atomic<Int>(0)
            let mark = Mutex<UInt32?>(nil)
            let paths = AsyncStream.makeStream(of: NetworkPath.self)
        }

        private let events: Events
        private let work = Mutex<Task<Void, Never>?>(nil)

        init(_ events: Events) { self.events = events }

        convenience init() { self.init(Events()) }

        func start(_ settings: TunnelSettings, context: ProviderContext) async throws(TunnelError) {
            events.mark.withLock { $0 = context.socketMark }
            try await context.apply(settings)
            let (flow, events) = (context.packetFlow, events)
            work.withLock {
                $0 = Task {
                    do {
                        let batch = try PacketBatch(packetCapacity: 16, byteCapacity: 1 << 18)
                        let replies = try PacketBatch(packetCapacity: 16, byteCapacity: 1 << 18)
                        while try await flow.read(into: batch) > 0 {
                            replies.removeAll()
                            for index in 0..<batch.count { Self.answer(batch, index, replies, events) }
                            try flow.write(replies)
                        }
                    } catch {
                        // The tunnel has ended.
                    }
                }
            }
        }

        private static func answer(_ batch: PacketBatch, _ index: Int, _ replies: PacketBatch, _ events: Events) {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard let reply = unsafe ICMPResponder().reply(to: packet) else { return }
            replies.append(copying: reply)
            events.answered.add(1, ordering: .relaxed)
        }

        func stop(_ reason: StopReason) async { work.withLock { $0 }?.cancel() }

        func pathChanged(_ path: NetworkPath) async { events.paths.continuation.yield(path) }

        func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? { message + message }
    }
#endif
