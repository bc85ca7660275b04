// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    /// A host with a default route of both families through a router, each in a separate namespace.
    final class LinuxHostWorld: Sendable {
        let host: Namespace
        let router: Namespace
        /// The folder of the journals, deleted with this object.
        let folder: String
        static let tunnel = "cvh0"

        init() throws {
            host = try Namespace()
            router = try Namespace()
            folder = "/run/culvert-test-\(UUID().uuidString)"
            for namespace in [host, router] {
                // Otherwise addresses are tentative for a second, and routes to them do not exist yet.
                try namespace.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
            }
            try host.run(
                "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", router.name)
            for (namespace, last) in [(host, 2), (router, 1)] {
                try namespace.run("ip", "address", "add", "192.0.2.\(last)/24", "dev", "eth0")
                try namespace.run("ip", "address", "add", "2001:db8:2::\(last)/64", "dev", "eth0", "nodad")
                // A network that counts as local.
                try namespace.run("ip", "address", "add", "172.31.2.\(last)/24", "dev", "eth0")
                try namespace.run("ip", "link", "set", "eth0", "up")
            }
            // Distant addresses behind the router.
            try router.run("ip", "address", "add", "203.0.113.7/32", "dev", "lo")
            try router.run("ip", "address", "add", "10.55.1.1/32", "dev", "lo")
            try router.run("ip", "address", "add", "2001:db8:7::7/128", "dev", "lo", "nodad")
            try host.run("ip", "route", "add", "default", "via", "192.0.2.1")
            try host.run("ip", "-6", "route", "add", "default", "via", "2001:db8:2::1")
            for router in ["192.0.2.1", "2001:db8:2::1"] {
                try host.run("ping", "-n", "-q", "-c", "1", "-W", "9", router)
            }
            // A route that conflicts with routes that tests route into the tunnel. It has more attributes than a
            // tunnel's routes have.
            try host.run(
                "ip", "route", "add", "10.55.0.0/16", "via", "192.0.2.1", "proto", "static", "src", "192.0.2.2",
                "metric", "0", "mtu", "1300")
            try host.run("ip", "-6", "route", "add", "fd55::/32", "via", "2001:db8:2::1", "metric", "1")
            try host.run("ip", "rule", "add", "to", "198.18.0.0/15", "table", "51820", "priority", "900")
            try host.run("nft", "add", "table", "inet", "others")
            try host.run("nft", "add chain inet others theirs { type filter hook output priority 5; }")
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        var options: LinuxHostOptions {
            LinuxHostOptions(nameServers: .wanted, journalFolder: folder)
        }

        /// Returns the parts of the host's network that a tunnel may change.
        func snapshot() throws -> [String] {
            var parts: [String] = []
            for command in [
                ["ip", "-j", "address"], ["ip", "-j", "-4", "route", "show", "table", "all"],
                ["ip", "-j", "-6", "route", "show", "table", "all"], ["ip", "-j", "-4", "rule"],
                ["ip", "-j", "-6", "rule"], ["nft", "list", "ruleset"],
                [
                    "sh", "-c",
                    "cd /proc/sys/net/ipv4/conf; grep -H . all/src_valid_mark */rp_filter */arp_ignore */arp_filter",
                ],
            ] {
                let result = try PrivilegedTests.run(["ip", "netns", "exec", host.name] + command)
                parts.append(command.joined(separator: " ") + "\n" + result.output)
            }
            parts.append(try String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8))
            let journals = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return parts + journals
        }

        /// Expects the network to be unchanged.
        func expectUnchanged(
            since before: [String], _ when: String = "", sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let changes = try changes(since: before)
            #expect(
                changes.isEmpty, "\(when)\n\(changes.joined(separator: "\n"))", sourceLocation: sourceLocation)
        }

        /// Returns the differences: each command's lines that are new or missing.
        func changes(since before: [String]) throws -> [String] {
            let now = try snapshot()
            var changes: [String] = []
            for (old, new) in zip(before, now) where old != new {
                // ip(8) prints JSON on one line, so compare its objects instead.
                func lines(_ text: String) -> Set<String> {
                    Set(text.replacing("},{", with: "}\n{").split(separator: "\n").map(String.init))
                }
                changes += lines(old).subtracting(lines(new)).map { "gone: \($0)" }
                changes += lines(new).subtracting(lines(old)).map { "new: \($0)" }
                if lines(old) == lines(new) { changes.append("in another order: \(new)") }
            }
            return changes + now.dropFirst(before.count).map { "left: \($0)" }
        }

        /// Creates a platform's core, which runs on a thread in the host's namespace instead of the platform's own
        /// thread.
        func core(
            owner: JournalOwner = LinuxHostWorld.dead, resolver: ResolverControl? = nil,
            dying: DyingNetwork.Life? = nil,
            wrap: (any NetworkSystem) -> any NetworkSystem = { $0 }
        ) throws -> LinuxPlatformCore {
            try host.perform {
                let network =
                    if let resolver { try LinuxNetwork(resolver: resolver) } else { try LinuxNetwork() }
                return LinuxPlatformCore(
                    name: Self.tunnel, options: options, network: network, owner: owner,
                    wrap: { system in if let dying { DyingNetwork(system, dying) } else { wrap(system) } })
            }
        }

        /// Undoes a core's changes.
        func cleanUp() throws -> [String] {
            try host.perform { try LinuxPlatform.cleanUp(name: Self.tunnel, options: options) }
        }

        /// A process that has ended.
        static let dead = JournalOwner(processID: 1, startTime: .max)

        /// Settings with all kinds of changes in them.
        static func settings(
            _ policy: LeakPolicy, local: Bool, routes: [String] = ["0.0.0.0/0", "::/0", "10.55.0.0/16", "fd55::/32"],
            without: [String] = ["203.0.113.0/25"]
        ) throws -> TunnelSettings {
            TunnelSettings(
                remoteAddress: "192.0.2.1:51820",
                addresses: [try InterfaceAddress("10.9.0.2/24"), try InterfaceAddress("fd09::2/64")],
                includedRoutes: try routes.map { try IPPrefix($0) },
                excludedRoutes: policy == .everything ? [] : try without.map { try IPPrefix($0) },
                allowsLocalNetwork: local, leakPolicy: policy)
        }
    }

    /// The real network, up to a given operation at which its process counts as dead. That operation (unless `doesLast`
    /// is set) and all later ones are not executed, and none is reported as done.
    final class DyingNetwork: NetworkSystem {
        struct Life {
            var operations: Int
            /// Whether the last operation is still executed.
            var doesLast: Bool
            /// Called at that point.
            var end: @Sendable () -> Void = {}
        }

        private let network: any NetworkSystem
        private var life: Life

        init(_ network: any NetworkSystem, _ life: Life) {
            self.network = network
            self.life = life
        }

        static let death = LinuxNetworkError(.netlink(operation: "live on"))

        func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?] {
            guard life.operations > 0 else { throw Self.death }
            return try network.previousStates(for: changes)
        }

        func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
            try network.missing(of: changes)
        }

        func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            try perform { () throws(LinuxNetworkError) in try network.make(change, previous) }
        }

        func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            try perform { () throws(LinuxNetworkError) in try network.undo(change, previous) }
        }

        private func perform(_ operation: () throws(LinuxNetworkError) -> Void) throws(LinuxNetworkError) {
            guard life.operations > 0 else { throw Self.death }
            life.operations -= 1
            if life.operations > 0 || life.doesLast { try operation() }
            guard life.operations == 0 else { return }
            life.end()
            throw Self.death
        }
    }
#endif
