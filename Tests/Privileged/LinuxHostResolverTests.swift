// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite(
            "Name servers through openresolv", .enabled(if: PrivateEtc.isPossible, "needs a mount namespace"),
            .timeLimit(.minutes(5)))
        struct ResolverTests {
            private static let before = "nameserver 192.0.2.53\noptions edns0\n# not by any program"

            private func settings() throws -> TunnelSettings {
                var settings = try LinuxHostWorld.settings(.enforcedRoutes, local: true)
                settings.dns = DNSSettings(
                    servers: [try IPAddress("10.9.0.1")], searchDomains: ["corp.example"])
                return settings
            }

            @Test("The tunnel's servers are the only ones while it is up; later the file is restored")
            func wholeLife() throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    let before = try world.snapshot()
                    let core = try world.core()
                    try world.host.perform {
                        try core.prepare(.enforcedRoutes)
                        _ = try core.apply(settings())
                        #expect(core.outsideNameServers() == [.v4(192, 0, 2, 53)], "as the file was")
                    }
                    let text = try String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8)
                    #expect(ResolvConf.servers(in: text) == ["10.9.0.1"])
                    #expect(text.contains("search corp.example"))
                    try world.host.perform { core.tearDown(leavingBlocked: false) }
                    try world.expectUnchanged(since: before)
                }
            }

            @Test("Other interfaces' servers return, and are known meanwhile")
            func others() throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    try run(["sh", "-c", "echo nameserver 192.0.2.99 | resolvconf -a eth0"])
                    defer { _ = try? run(["resolvconf", "-f", "-d", "eth0"]) }
                    let before = try world.snapshot()
                    #expect(before.contains { $0.contains("192.0.2.99") })
                    let core = try world.core()
                    try world.host.perform {
                        try core.prepare(.enforcedRoutes)
                        _ = try core.apply(settings())
                        #expect(core.outsideNameServers() == [.v4(192, 0, 2, 99)])
                    }
                    #expect(try !String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8).contains("192.0.2.99"))
                    try world.host.perform { core.tearDown(leavingBlocked: false) }
                    try world.expectUnchanged(since: before)
                }
            }

            @Test(
                "A change that resolvconf did not make while another process had its lock stays in the journal until it is made"
            )
            func lockHeld() throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    let before = try world.snapshot()
                    var core: LinuxPlatformCore? = try world.core()
                    try world.host.perform {
                        try core?.prepare(.enforcedRoutes)
                        _ = try core?.apply(settings())
                    }
                    let lock = try ResolvconfLock()
                    try world.host.perform { core?.tearDown(leavingBlocked: false) }
                    core = nil
                    #expect(
                        try ResolvConf.servers(in: CulvertUpScene.resolvConfNow) == ["10.9.0.1"])
                    try lock.release()
                    _ = try world.cleanUp()
                    try world.expectUnchanged(since: before)
                }
            }

            @Test(
                "The end of the tunnel restores a file that another program wrote, even after a crash",
                arguments: [false, true])
            func replaced(_ dies: Bool) throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    let before = try world.snapshot()
                    var core: LinuxPlatformCore? = try world.core()
                    try world.host.perform {
                        try core?.prepare(.enforcedRoutes)
                        _ = try core?.apply(settings())
                    }
                    let theirs = "nameserver 192.0.2.99\n# of a DHCP client\n"
                    try theirs.write(toFile: "/etc/resolv.conf", atomically: true, encoding: .utf8)
                    // The first check only detects the change.
                    let times = try world.host.perform { (0..<3).map { _ in core?.reconcile([.resolver]) } }
                    #expect(times == [ResolverKeeper.settling, nil, nil])
                    #expect(try ResolvConf.servers(in: CulvertUpScene.resolvConfNow) == ["10.9.0.1"])
                    try world.host.perform {
                        #expect(core?.problems.list == [])
                        #expect(core?.repairs.last == "name servers through openresolv")
                        #expect(core?.outsideNameServers() == [.v4(192, 0, 2, 99)])
                        if !dies { core?.tearDown(leavingBlocked: false) }
                    }
                    core = nil
                    if dies { _ = try world.cleanUp() }
                    #expect(try CulvertUpScene.resolvConfNow == theirs)
                    try Self.before.write(toFile: "/etc/resolv.conf", atomically: false, encoding: .utf8)
                    try world.expectUnchanged(since: before)
                }
            }

            @Test("Settings that resolvconf does not take leave nothing, not even in the journal")
            func neverSet() throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    let before = try world.snapshot()
                    let core = try world.core()
                    let lock = try ResolvconfLock()
                    try world.host.perform {
                        try core.prepare(.enforcedRoutes)
                        #expect(throws: TunnelError.self) { try core.apply(settings()) }
                        core.tearDown(leavingBlocked: false)
                    }
                    try world.expectUnchanged(since: before)
                    try lock.release()
                }
            }

            @Test(
                "After a crash right before or after the change of servers, cleaning up restores the file",
                arguments: [true, false])
            func crash(_ doesLast: Bool) throws {
                let etc = try PrivateEtc(resolvConf: Self.before)
                try withExtendedLifetime(etc) {
                    let world = try LinuxHostWorld()
                    let before = try world.snapshot()
                    // The name servers are restored last.
                    var count = 1
                    var isWhole = false
                    while !isWhole {
                        var core: LinuxPlatformCore? = try world.core(
                            dying: DyingNetwork.Life(operations: count, doesLast: doesLast))
                        try world.host.perform {
                            try? core?.prepare(.enforcedRoutes)
                            isWhole = (try? core?.apply(settings())) != nil
                        }
                        core = nil
                        _ = try world.cleanUp()
                        try world.expectUnchanged(since: before, "operation \(count)")
                        count += 1
                    }
                    #expect(count > 10)
                }
            }
        }
    }
#endif
