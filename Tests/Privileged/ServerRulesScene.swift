// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO

    @testable import TunnelServer

    extension [AccessRule] {
        /// The rules for flows that begin outside and lead to the client.
        var towardsClient: [AccessRule] {
            map { rule in
                var rule = rule
                rule.direction = .in
                return rule
            }
        }
    }

    /// A tunnel server with two clients, each in a separate namespace, whose packets arrive through the server's
    /// tunnel. There is a network behind the second client.
    final class ServerRulesScene {
        let world: LinuxHostWorld
        /// The other end of the tunnel, which forwards packets to the owner of their address.
        private let far: Namespace
        let anna: Namespace
        let ben: Namespace
        let network: ServerNetwork
        private let cable: TunCable
        private let ends: [LinuxTun]
        static let name = "srv0"
        static let addresses: [String: [String]] = [
            "anna": ["10.66.0.2", "fd66::2"], "ben": ["10.66.0.3", "fd66::3"],
        ]
        /// A machine in the network behind ben.
        static let site = "192.168.50.2"

        init(_ change: (inout ServerNetworkSettings) -> Void = { _ in }) async throws {
            world = try LinuxHostWorld()
            (far, anna, ben) = (try Namespace(), try Namespace(), try Namespace())
            for address in ["192.168.77.1/32", "192.168.78.1/32"] {
                try world.router.run("ip", "address", "add", address, "dev", "lo")
            }
            try world.host.run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
            var settings = ServerNetworkSettings(
                name: Self.name, mtu: 1400,
                addresses: [try InterfaceAddress("10.66.0.1/24"), try InterfaceAddress("fd66::1/64")])
            settings.nameServers = [try IPAddress("10.55.1.1")]
            settings.services = [.init(.tcp, 8080)]
            settings.journalFolder = world.folder
            change(&settings)
            let made = settings
            network = try world.host.perform { try ServerNetwork(made) }
            let (device, _, _) = try await network.start(isMultiQueue: false)
            let end = try far.perform {
                let tun = try LinuxTun(name: "tun0", mtu: 1400)
                try tun.setUp(true)
                return tun
            }
            ends = [device, end]
            cable = try TunCable(ends)
            try far.run(
                "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
            try far.run("ip", "route", "add", "default", "dev", "tun0", "table", "100")
            try far.run("ip", "-6", "route", "add", "default", "dev", "tun0", "table", "100")
            for (name, namespace) in [("anna", anna), ("ben", ben)] {
                try far.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", namespace.name)
                try far.run("ip", "address", "add", "100.99.0.1/32", "dev", name)
                try far.run("ip", "address", "add", "fe80::1/64", "dev", name, "nodad")
                try far.run("ip", "link", "set", name, "up")
                try namespace.run("ip", "link", "set", "eth0", "up")
                try namespace.run("ip", "route", "add", "100.99.0.1", "dev", "eth0")
                for address in Self.addresses[name] ?? [] {
                    let family = address.contains(":") ? "-6" : "-4"
                    let (length, gateway) = family == "-6" ? ("128", "fe80::1") : ("32", "100.99.0.1")
                    var command = ["ip", family, "address", "add", "\(address)/\(length)", "dev", "eth0"]
                    if family == "-6" { command.append("nodad") }
                    try PrivilegedTests.run(["ip", "netns", "exec", namespace.name] + command)
                    try namespace.run(
                        "ip", family, "route", "add", "default", "via", gateway, "dev", "eth0", "src", address)
                    try far.run("ip", family, "route", "add", "\(address)/\(length)", "dev", name)
                    // The route from one client to another also leads through the tunnel.
                    try far.run("ip", family, "rule", "add", "iif", name, "table", "100")
                }
            }
            try ben.run("ip", "address", "add", "\(Self.site)/32", "dev", "lo")
            try far.run("ip", "route", "add", "192.168.50.0/24", "via", "10.66.0.3", "dev", "ben", "onlink")
        }

        /// Sends a packet to the server through the tunnel, with any source.
        func inject(_ packet: [UInt8]) throws {
            let batch = try PacketBatch()
            batch.append(copying: packet)
            try #require(ends[0].send(batch).sent == 1)
        }

        func stop() async {
            await network.stop()
            for end in ends { end.close() }
        }

        /// Admits a client with these rules.
        func allow(_ name: String, subnets: [String] = [], _ rules: [AccessRule] = []) async throws {
            try await network.allow(
                (Self.addresses[name] ?? []).map { try IPAddress($0) }, subnets: subnets.map { try IPPrefix($0) },
                rules: rules)
        }

        func remove(_ name: String, subnets: [String] = []) async throws {
            try await network.remove(
                (Self.addresses[name] ?? []).map { try IPAddress($0) }, subnets: subnets.map { try IPPrefix($0) })
        }

        // MARK: - Attempts

        func pings(_ address: String, from: Namespace, source: String? = nil, patience: Int = 1) throws -> Bool {
            try runAllowingFailure(
                ["ip", "netns", "exec", from.name, "ping", "-n", "-q", "-c", "1", "-W", "\(patience)"]
                    + (source.map { ["-I", $0] } ?? []) + [address]
            ).status == 0
        }

        /// The outcome of a TCP connection to a port without a listener.
        func connects(from: Namespace, to address: String, port: Int) throws -> TunnelServerScene.Outcome {
            let output = try from.runAllowingFailure(
                "timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/\(address)/\(port)"
            ).output
            if output.contains(TunnelServerScene.Outcome.reached.rawValue) { return .reached }
            if output.contains("No route to host") || output.contains("Permission denied") { return .refused }
            return .silent
        }

        /// Whether one of the host's routes leads to a network in the tunnel.
        func hasRoute(to network: String) throws -> Bool {
            try world.host.run("ip", "route", "show", network).output.contains("dev \(Self.name)")
        }
    }

    /// A TCP connection of which a test has both ends.
    struct HeldFlow {
        let near: TestSocket
        let far: TestSocket

        init(from: Namespace, to namespace: Namespace, at address: String, port: Int) throws {
            let listener = try TestSocket.listener(in: namespace, at: address, port: port)
            near = try TestSocket.connecting(in: from, to: address, port: port)
            far = try listener.accept()
            try #require(carries(fromNear: true) && carries(fromNear: false))
        }

        /// Whether some bytes are transferred.
        func carries(fromNear: Bool, within patience: Duration = .seconds(2)) -> Bool {
            let (from, to) = fromNear ? (near, far) : (far, near)
            guard from.write([1, 2, 3]) else { return false }
            guard Poll.isReadable(to.descriptor, before: .now + patience) else { return false }
            return (try? to.read().isEmpty) == false
        }

        /// Writes at one end, and waits until the connection has ended there.
        func ends(writingAt near: Bool, within patience: Duration = .seconds(5)) -> Bool {
            let socket = near ? self.near : far
            guard socket.write([4]) else { return true }
            guard Poll.isReadable(socket.descriptor, before: .now + patience) else { return false }
            do { return try socket.read().isEmpty } catch { return true }
        }
    }
#endif
