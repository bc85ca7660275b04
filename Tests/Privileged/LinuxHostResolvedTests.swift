// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import HostConformance
    import Testing
    import WireGuardTunnel

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    /// systemd-resolved in a host's namespace, on a separate bus: only in a sandbox with a separate /run (scripts/sandbox).
    private final class SystemdResolved {
        /// The folder into which scripts/setup unpacks a package that cannot be installed together with openresolv.
        static let unpacked = "/usr/local/lib/culvert-tests/systemd-resolved"

        private static func find(_ name: String, in folders: [String]) -> String? {
            folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        }

        static let daemon = find(
            "systemd-resolved", in: ["/lib/systemd", "\(unpacked)/lib/systemd", "\(unpacked)/usr/lib/systemd"])
        static let folders = ["\(unpacked)/usr/bin"] + SystemProgram.folders
        static let isPossible =
            PrivateEtc.isPossible && daemon != nil && find("resolvectl", in: folders) != nil
            && SystemProgram("dbus-daemon") != nil

        let control: ResolverControl
        private let etc: PrivateEtc
        private let world: LinuxHostWorld
        private let bus: SpawnedProcess
        private let resolved: SpawnedProcess

        init(_ world: LinuxHostWorld) throws {
            self.world = world
            etc = try PrivateEtc(resolvConf: "")
            try FileManager.default.removeItem(atPath: "/etc/resolv.conf")
            try FileManager.default.createSymbolicLink(
                atPath: "/etc/resolv.conf", withDestinationPath: "/run/systemd/resolve/stub-resolv.conf")
            if try !String(contentsOfFile: "/etc/passwd", encoding: .utf8).contains("systemd-resolve:") {
                // The name of the process after its start.
                try PrivilegedTests.run([
                    "sh", "-ec",
                    """
                    echo systemd-resolve:x:991:991::/:/usr/sbin/nologin >>/etc/passwd
                    echo systemd-resolve:x:991: >>/etc/group
                    """,
                ])
            }
            for folder in ["/run/dbus", "/run/systemd"] {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            }
            let file = "/run/dbus/culvert-tests.conf"
            try """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <listen>unix:path=/run/dbus/system_bus_socket</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow user="*"/>
                <allow own="*"/>
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
              </policy>
            </busconfig>
            """.write(toFile: file, atomically: false, encoding: .utf8)
            try? FileManager.default.removeItem(atPath: "/run/dbus/system_bus_socket")
            bus = try SpawnedProcess(["dbus-daemon", "--config-file=\(file)", "--nofork", "--print-address"])
            try bus.waitForOutput(containing: "unix:path=")
            try? FileManager.default.removeItem(atPath: "/run/systemd/resolve")
            guard let daemon = Self.daemon else { throw CommandFailure(description: "no systemd-resolved") }
            resolved = try world.host.start("env", "SYSTEMD_LOG_TARGET=console", daemon)
            control = ResolverControl(folders: Self.folders)
            // Query the servers of the outside network. A reply shows that systemd-resolved serves its bus.
            try eventually("systemd-resolved serves its bus") {
                try world.host.runAllowingFailure("timeout", "5", tool, "dns", "eth0", "192.0.2.1").status == 0
            }
            try world.host.run(tool, "llmnr", "eth0", "no")
        }

        deinit {
            resolved.kill()
            bus.kill()
            try? FileManager.default.removeItem(atPath: "/run/systemd/resolve")
            try? FileManager.default.removeItem(atPath: "/run/dbus/system_bus_socket")
        }

        private var tool: String { Self.find("resolvectl", in: Self.folders) ?? "resolvectl" }

        /// Returns the output of resolvectl, without the label of the line.
        func ask(_ question: String, _ interface: String = LinuxHostWorld.tunnel) throws -> String {
            let output = try world.host.run(tool, question, interface).output
            return output.split(separator: ":", maxSplits: 1).last
                .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) } ?? ""
        }

        /// Returns all servers, domains and routes of resolvectl, except those of removed links.
        func snapshot() throws -> [String] {
            try ["dns", "domain", "default-route"].map { try world.host.run(tool, $0).output }
        }
    }

    extension LinuxHostTests {
        @Suite(
            "Name servers through systemd-resolved", .enabled(if: SystemdResolved.isPossible, "needs systemd-resolved"),
            .timeLimit(.minutes(5)))
        struct ResolvedTests {
            private func settings(_ dns: DNSSettings?) throws -> TunnelSettings {
                var settings = try LinuxHostWorld.settings(.enforcedRoutes, local: true)
                settings.dns = dns
                return settings
            }

            private static var everything: DNSSettings {
                DNSSettings(servers: [.v4(10, 9, 0, 1), .v6(0xfd09 << 48, 1)], searchDomains: ["corp.example"])
            }

            @Test("The tunnel's link has its servers, domains and route for all names; later everything is restored")
            func wholeLife() throws {
                let world = try LinuxHostWorld()
                let resolved = try SystemdResolved(world)
                let before = try (world.snapshot(), resolved.snapshot())
                let core = try world.core(resolver: resolved.control)
                try world.host.perform {
                    #expect(core.outsideNameServers() == [.v4(192, 0, 2, 1)])
                    try core.prepare(.enforcedRoutes)
                    _ = try core.apply(settings(Self.everything))
                }
                #expect(try resolved.ask("dns") == "10.9.0.1 fd09::1")
                #expect(try resolved.ask("domain") == "corp.example ~.")
                #expect(try resolved.ask("default-route") == "yes")
                try world.host.perform {
                    #expect(core.outsideNameServers() == [.v4(192, 0, 2, 1)], "not the tunnel's")
                    core.tearDown(leavingBlocked: false)
                }
                try world.expectUnchanged(since: before.0)
                #expect(try resolved.snapshot() == before.1)
            }

            @Test("Lookups are split by domain, and settings that change or go are followed while the link stays")
            func changes() throws {
                let world = try LinuxHostWorld()
                let resolved = try SystemdResolved(world)
                let before = try resolved.snapshot()
                let core = try world.core(resolver: resolved.control)
                try world.host.perform {
                    try core.prepare(.enforcedRoutes)
                    _ = try core.apply(settings(Self.everything))
                    _ = try core.apply(
                        settings(
                            DNSSettings(
                                servers: [.v4(10, 9, 0, 7)], matchDomains: ["a.example", "b.example"],
                                searchesMatchDomains: false)))
                }
                #expect(try resolved.ask("dns") == "10.9.0.7")
                #expect(try Set(resolved.ask("domain").split(separator: " ")) == ["~a.example", "~b.example"])
                #expect(try resolved.ask("default-route") == "no")
                try world.host.perform { _ = try core.apply(settings(nil)) }
                #expect(try resolved.ask("dns") == "")
                #expect(try resolved.ask("domain") == "")
                #expect(try world.host.run("ip", "link", "show", LinuxHostWorld.tunnel).output.contains("UP"))
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                #expect(try resolved.snapshot() == before)
            }

            @Test(
                "A file in place of the link, a write through it, and a link that was reverted are restored, and reported",
                arguments: [
                    "rm /etc/resolv.conf; echo nameserver 192.0.2.99 > /etc/resolv.conf",
                    "echo nameserver 192.0.2.99 > /etc/resolv.conf", "resolvectl revert cvh0",
                    "resolvectl dns cvh0 192.0.2.99",
                ])
            func replaced(_ script: String) throws {
                let world = try LinuxHostWorld()
                let resolved = try SystemdResolved(world)
                let before = try (world.snapshot(), resolved.snapshot(), ResolverFile(at: "/etc/resolv.conf"))
                let core = try world.core(resolver: resolved.control)
                try world.host.perform {
                    try core.prepare(.enforcedRoutes)
                    _ = try core.apply(settings(Self.everything))
                    #expect(core.reconcile([.resolver]) == nil)
                    #expect(core.repairs.count == 0)
                }
                try world.host.run("sh", "-ec", "PATH=\(SystemdResolved.folders.joined(separator: ":")); \(script)")
                let theirs = try ResolverFile(at: "/etc/resolv.conf")
                try world.host.perform {
                    for _ in 0..<2 { _ = core.reconcile([.resolver]) }
                    #expect(core.reconcile([]) == nil)
                    #expect(core.problems.list == [])
                    #expect(core.repairs.last == "name servers through resolved", "\(core.repairs)")
                }
                let now = try ResolverFile(at: "/etc/resolv.conf")
                #expect(now.link == before.2.link && now.asksResolvedOnly)
                #expect(try resolved.ask("dns") == "10.9.0.1 fd09::1")
                #expect(try resolved.ask("domain") == "corp.example ~.")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                let after = try ResolverFile(at: "/etc/resolv.conf")
                #expect(after == (script.hasPrefix("rm ") ? theirs : before.2))
                // systemd-resolved adopts the servers of a file that is not a link to its own file.
                try before.2.restore(at: "/etc/resolv.conf")
                #expect(try resolved.snapshot() == before.1)
                try world.expectUnchanged(since: before.0)
            }

            @Test(
                "After a crash right before or after the change, cleaning up leaves nothing", arguments: [true, false])
            func crash(_ doesLast: Bool) throws {
                let world = try LinuxHostWorld()
                let resolved = try SystemdResolved(world)
                let before = try (world.snapshot(), resolved.snapshot())
                var isWhole = false
                var count = 1
                while !isWhole {
                    var core: LinuxPlatformCore? = try world.core(
                        resolver: resolved.control,
                        dying: DyingNetwork.Life(operations: count, doesLast: doesLast))
                    try world.host.perform {
                        try? core?.prepare(.enforcedRoutes)
                        isWhole = (try? core?.apply(settings(Self.everything))) != nil
                    }
                    core = nil
                    _ = try world.host.perform {
                        try ChangeLedger.cleanUp(
                            name: LinuxHostWorld.tunnel, directory: JournalDirectory(path: world.folder),
                            system: LinuxNetwork(resolver: resolved.control))
                    }
                    try world.expectUnchanged(since: before.0, "operation \(count)")
                    #expect(try resolved.snapshot() == before.1)
                    count += 1
                }
                #expect(count > 10)
            }

            @Test("Programs' lookups go through the tunnel, and the server's name is resolved outside it")
            func lookups() async throws {
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let resolved = try SystemdResolved(world)
                let names = try NameServer(
                    on: NamespaceNetwork(namespace: world.router),
                    [WireGuardTests.name: [.v4(203, 0, 113, 7)], "inside.example": [.v4(10, 9, 0, 77)]])
                try scene.startServer()
                let (host, _) = try await scene.host(resolver: resolved.control)
                let capture = try LinuxHostWorld.Capture(world)
                try await host.start(
                    scene.configuration(.everything, endpoint: "\(WireGuardTests.name):51820"),
                    leakPolicy: .everything, profileID: WireGuardServerWorld.profile)
                let found = try await onThread { try world.host.run("getent", "ahostsv4", "inside.example").output }
                #expect(found.contains("10.9.0.77"))
                let leaks = WireGuardTests.leaks(try capture.lines())
                #expect(leaks.isEmpty, "\(leaks)")
                #expect(names.questions.contains { $0.name == WireGuardTests.name && $0.server == 1 })
                await host.stop(.userInitiated)
                await names.close()
            }
        }
    }
#endif
