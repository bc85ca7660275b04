// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import PacketTunnel

    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        /// Captures every packet that a host sends, at the router.
        @Suite("Leaks, seen from outside", .timeLimit(.minutes(5)))
        struct LeakTests {
            @Test("Without a guard every packet leaves, so the tests can detect leaks")
            func control() throws {
                let world = try LinuxHostWorld()
                let lines = try world.captured { try world.tryEverything() }
                for text in ["> 10.55.1.1: ICMP", "> 8.8.8.8.53:", "> 8.8.8.8.80: Flags [S]", "> 2001:db8:7::7.53:"] {
                    #expect(lines.contains { $0.contains(text) }, "\(text)")
                }
                // A program that binds to another interface bypasses a routed tunnel without a policy.
                let core = try world.core()
                let around = try world.captured {
                    try world.host.perform {
                        try core.prepare(.routeBased)
                        _ = try core.apply(LinuxHostWorld.settings(.routeBased, local: true))
                    }
                    try world.tryEverything()
                }
                #expect(around.contains { $0.contains("> 8.8.8.8.53:") })
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }

            @Test("Only marked UDP leaves, while connecting, up and blocked", arguments: [true, false])
            func everything(_ local: Bool) throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let core = try world.core()
                let lines = try world.captured {
                    try world.host.perform { try core.prepare(.everything) }
                    try world.tryEverything()
                    try world.host.perform {
                        _ = try core.apply(LinuxHostWorld.settings(.everything, local: local))
                    }
                    try world.tryEverything()
                    try world.send(to: "203.0.113.7", port: 51_820, mark: 51_821)
                    try world.host.perform { core.tearDown(leavingBlocked: true) }
                    try world.tryEverything()
                }
                let others = lines.filter { !LinuxHostWorld.isLinkConfiguration($0) }
                #expect(others.count == 1, "\(others)")
                #expect(others.first?.contains("> 203.0.113.7.51820: UDP") == true, "\(others)")
                let localLines = try world.captured {
                    try world.host.perform {
                        try core.prepare(.everything)
                        _ = try core.apply(LinuxHostWorld.settings(.everything, local: local))
                    }
                    try world.send(to: "172.31.2.1", port: 80)
                    try world.send(to: "172.31.2.1", port: 53)
                    try world.send(to: "192.0.2.1", port: 80)
                }
                #expect(localLines.contains { $0.contains("> 172.31.2.1.80:") } == local)
                #expect(!localLines.contains { $0.contains("> 172.31.2.1.53:") }, "lookups are the tunnel's")
                #expect(!localLines.contains { $0.contains("> 192.0.2.1.80:") }, "a public network is not local")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.expectUnchanged(since: before)
            }

            @Test("Enforced routes block the tunnel's packets on every interface, and no others")
            func enforced() throws {
                let world = try LinuxHostWorld()
                let core = try world.core()
                let settings = try LinuxHostWorld.settings(
                    .enforcedRoutes, local: false, routes: ["10.55.0.0/16", "fd55::/32"])
                let lines = try world.captured {
                    try world.host.perform {
                        try core.prepare(.enforcedRoutes)
                        _ = try core.apply(settings)
                    }
                    try world.tryEverything()
                    try world.host.perform { core.tearDown(leavingBlocked: true) }
                    try world.tryEverything()
                }
                #expect(!lines.contains { $0.contains("> 10.55.1.1") || $0.contains("> fd55::1") }, "\(lines)")
                #expect(lines.contains { $0.contains("> 8.8.8.8.80: Flags [S]") })
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }

            @Test(
                "Routes of a hostile DHCP server or router make nothing local",
                arguments: LeakPolicy.allCases.dropFirst())
            func hostileRoutes(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                let core = try world.core()
                let lines = try world.captured {
                    for route in ["0.0.0.0/1", "128.0.0.0/1"] {
                        try world.host.run("ip", "route", "add", route, "dev", "eth0")
                    }
                    try world.host.run("ip", "-6", "route", "add", "2000::/3", "dev", "eth0")
                    try world.host.perform {
                        try core.prepare(policy)
                        _ = try core.apply(LinuxHostWorld.settings(policy, local: true))
                    }
                    try world.tryEverything()
                    try world.host.run("ip", "route", "add", "8.8.8.0/24", "dev", "eth0")
                    #expect(try world.host.perform { core.reconcile([.routing, .firewall]) == nil })
                    try world.tryEverything()
                }
                // If those routes made the addresses on-link, ARP and neighbour discovery would request them.
                #expect(
                    lines.allSatisfy { line in
                        !["8.8.8.8", "10.55.1.1", "2001:db8:7::7", "fd55::1"].contains { line.contains($0) }
                    }, "\(lines)")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }

            @Test("IPv6 is held back also where the tunnel's interface carries none", arguments: LeakPolicy.allCases)
            func withoutIPv6(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                try world.host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
                let core = try world.core()
                let lines = try world.captured {
                    try world.host.perform {
                        try core.prepare(policy)
                        _ = try core.apply(LinuxHostWorld.settings(policy, local: true))
                    }
                    try world.tryEverything(policy == .routeBased ? .routed : .all)
                }
                #expect(!lines.contains { $0.contains("2001:db8:7::7") || $0.contains("fd55::1") }, "\(lines)")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0")
                try world.expectUnchanged(since: before)
            }

            @Test(
                "While the firewall cannot be loaded again, policy rules hold packets back",
                arguments: LeakPolicy.allCases.dropFirst())
            func heldBackByRules(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let switches = BrokenFirewall.Switch()
                let core = try world.core(wrap: { BrokenFirewall($0, switches) })
                try world.host.perform {
                    try core.prepare(policy)
                    _ = try core.apply(LinuxHostWorld.settings(policy, local: false))
                }
                switches.isBroken = true
                try world.host.run("nft", "delete", "table", "inet", "culvert_\(LinuxHostWorld.tunnel)")
                #expect(try world.host.perform { core.reconcile([.firewall]) != nil }, "it is to be tried again")
                // Policy rules do not apply to a program that binds to another interface.
                let lines = try world.captured {
                    try world.tryEverything(.routed)
                    try world.send(to: "203.0.113.7", port: 51_820, mark: 51_821)
                }
                let others = lines.filter { !LinuxHostWorld.isLinkConfiguration($0) }
                #expect(others.contains { $0.contains("> 203.0.113.7.51820: UDP") })
                #expect(others.allSatisfy { $0.contains("203.0.113.7.51820") }, "\(others)")
                switches.isBroken = false
                #expect(try world.host.perform { core.reconcile([.firewall]) == nil })
                #expect(try !world.host.run("ip", "rule").output.contains("prohibit"))
                #expect(core.repairs.count == 1)
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.expectUnchanged(since: before)
            }

            @Test("DHCP leases are requested only on the link")
            func leases() throws {
                let world = try LinuxHostWorld()
                let core = try world.core()
                let lines = try world.captured {
                    try world.host.perform { try core.prepare(.everything) }
                    for server in ["8.8.8.8", "172.31.2.1", "192.0.2.1"] {
                        try world.send(to: server, port: 67, sourcePort: 68)
                    }
                    for server in ["2001:db8:7::7", "2001:db8:2::1"] {
                        try world.send(to: server, port: 547, sourcePort: 546)
                    }
                }
                let others = lines.filter { !LinuxHostWorld.isLinkConfiguration($0) }
                #expect(others.count == 1 && others.first?.contains("> 172.31.2.1.67") == true, "\(others)")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }

            @Test("Packets that the host forwards are held back as its own are")
            func forwarded() throws {
                let world = try LinuxHostWorld()
                let inner = try Namespace()
                try world.host.run(
                    "ip", "link", "add", "in0", "type", "veth", "peer", "name", "eth0", "netns", inner.name)
                try world.host.run("ip", "address", "add", "198.51.100.1/24", "dev", "in0")
                try world.host.run("ip", "link", "set", "in0", "up")
                try inner.run("ip", "address", "add", "198.51.100.2/24", "dev", "eth0")
                try inner.run("ip", "link", "set", "eth0", "up")
                try inner.run("ip", "route", "add", "default", "via", "198.51.100.1")
                try world.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
                func forward() throws {
                    _ = try inner.runAllowingFailure("ping", "-n", "-q", "-c", "1", "-W", "0.1", "8.8.8.8")
                    // Only the host itself may send the packets that a lease needs.
                    try inner.send(to: "8.8.8.8", port: 67, sourcePort: 68)
                }
                #expect(try world.captured(forward).contains { $0.contains("198.51.100.2 > 8.8.8.8: ICMP") })
                let core = try world.core()
                try world.host.perform { try core.prepare(.everything) }
                #expect(try world.captured(forward).allSatisfy(LinuxHostWorld.isLinkConfiguration))
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }

            @Test("Packets for the tunnel's address that do not come out of it are dropped")
            func spoofed() throws {
                let world = try LinuxHostWorld()
                let core = try world.core()
                try world.host.perform {
                    try core.prepare(.routeBased)
                    _ = try core.apply(
                        LinuxHostWorld.settings(.routeBased, local: true, routes: ["0.0.0.0/0", "::/0"]))
                }
                try world.router.run("ip", "route", "add", "10.9.0.2", "via", "192.0.2.2")
                let lines = try world.captured {
                    _ = try world.router.runAllowingFailure("ping", "-n", "-q", "-c", "1", "-W", "0.3", "10.9.0.2")
                }
                #expect(!lines.contains { $0.contains("echo reply") })
                try world.host.run("nft", "delete", "table", "inet", "culvert_\(LinuxHostWorld.tunnel)")
                let unguarded = try world.captured {
                    try world.router.run("ping", "-n", "-q", "-c", "1", "-W", "9", "10.9.0.2")
                }
                #expect(unguarded.contains { $0.contains("echo reply") }, "so it is the firewall that drops")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
            }
        }
    }

    /// The real network, with a firewall that can be made to fail.
    final class BrokenFirewall: NetworkSystem {
        final class Switch {
            var isBroken = false
            var error = LinuxNetworkError(.programMissing(name: "nft"))
        }

        private let network: any NetworkSystem
        private let switches: Switch

        init(_ network: any NetworkSystem, _ switches: Switch) {
            self.network = network
            self.switches = switches
        }

        func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?] {
            try network.previousStates(for: changes)
        }

        func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
            try network.missing(of: changes)
        }

        func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            if switches.isBroken, case .firewall = change { throw switches.error }
            try network.make(change, previous)
        }

        func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            try network.undo(change, previous)
        }
    }

    extension LinuxHostWorld {
        /// Sends a datagram from the host, and ignores a refusal.
        func send(
            to address: String, port: UInt16, sourcePort: UInt16? = nil, mark: UInt32? = nil, interface: String? = nil
        ) throws {
            try host.send(to: address, port: port, sourcePort: sourcePort, mark: mark, interface: interface)
        }

        /// Begins a TCP connection from the host and abandons it.
        func connect(to address: String, port: UInt16) throws {
            try host.exchange(Int32(SOCK_STREAM.rawValue), address, port, nil, nil, nil)
        }
    }

    extension Namespace {
        /// Sends a datagram from the namespace, and ignores a refusal.
        func send(
            to address: String, port: UInt16, sourcePort: UInt16? = nil, mark: UInt32? = nil, interface: String? = nil
        ) throws {
            try exchange(Int32(SOCK_DGRAM.rawValue), address, port, sourcePort, mark, interface)
        }

        fileprivate func exchange(
            _ kind: Int32, _ text: String, _ port: UInt16, _ sourcePort: UInt16?, _ mark: UInt32?, _ interface: String?
        ) throws {
            let address = try IPAddress(text)
            try perform {
                let socket = socket(address.isIPv6 ? AF_INET6 : AF_INET, kind | Int32(SOCK_NONBLOCK.rawValue), 0)
                guard socket >= 0 else { throw CommandFailure(description: "no socket: errno \(errno)") }
                defer { close(socket) }
                if var mark {
                    // SO_MARK
                    guard unsafe setsockopt(socket, SOL_SOCKET, 36, &mark, 4) == 0 else {
                        throw CommandFailure(description: "no mark: errno \(errno)")
                    }
                }
                if let interface {
                    // SO_BINDTODEVICE
                    guard unsafe setsockopt(socket, SOL_SOCKET, 25, interface, socklen_t(interface.utf8.count)) == 0
                    else {
                        throw CommandFailure(description: "not bound: errno \(errno)")
                    }
                }
                if let sourcePort {
                    let any = Self.socketAddress(try IPAddress(address.isIPv6 ? "::" : "0.0.0.0"), sourcePort)
                    guard
                        unsafe any.withUnsafeBytes({ unsafe bind(socket, Self.pointer($0), socklen_t($0.count)) }) == 0
                    else {
                        throw CommandFailure(description: "port \(sourcePort) is not free: errno \(errno)")
                    }
                }
                unsafe Self.socketAddress(address, port).withUnsafeBytes { raw in
                    if unsafe Foundation.connect(socket, Self.pointer(raw), socklen_t(raw.count)) == 0 {
                        unsafe _ = Foundation.send(socket, "x", 1, Int32(MSG_NOSIGNAL))
                    }
                }
            }
        }

        /// struct sockaddr_in or sockaddr_in6.
        private static func socketAddress(_ address: IPAddress, _ port: UInt16) -> [UInt8] {
            let start = [UInt8(address.isIPv6 ? AF_INET6 : AF_INET), 0, UInt8(port >> 8), UInt8(port & 0xff)]
            return address.isIPv6
                ? start + [0, 0, 0, 0] + address.bytes + [0, 0, 0, 0]
                : start + address.bytes + [UInt8](repeating: 0, count: 8)
        }

        private static func pointer(_ raw: UnsafeRawBufferPointer) -> UnsafePointer<sockaddr>? {
            unsafe raw.baseAddress?.assumingMemoryBound(to: sockaddr.self)
        }
    }
#endif
