// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import WireGuardCore

@testable import WireGuardTunnel
@testable import culvert

@Suite("Loading a tunnel for culvert up")
struct TunnelLoaderTests {
    private let folder: ScratchFolder

    init() throws { folder = try ScratchFolder() }

    private func loader(interface: String? = nil) -> TunnelLoader {
        TunnelLoader(
            wireGuardFolder: folder.path, profiles: ProfileFolder(path: folder.path + "/culvert"), interface: interface)
    }

    private func problem(_ argument: String, interface: String? = nil) async -> CommandProblem? {
        do throws(CommandProblem) {
            _ = try await loader(interface: interface).load(argument)
            return nil
        } catch {
            return error
        }
    }

    @Test("A file names the tunnel and its interface, as with wg-quick")
    func file() async throws {
        let path = try folder.write(Samples.file(), to: "wg0.conf")
        let tunnel = try await loader().load(path)
        #expect(tunnel.name == "wg0")
        #expect(tunnel.source == path)
        #expect(tunnel.profile == nil)
        #expect(tunnel.hooks.isEmpty)
        #expect(tunnel.warnings.isEmpty)
        #expect(tunnel.configuration.allowsLocalNetwork)
        #expect(tunnel.configuration.leakPolicy == .routeBased)
        #expect(tunnel.configuration.peers.map(\.endpoint?.description) == ["192.0.2.1:51820"])
        #expect(try await tunnel.secrets.names(of: tunnel.profileID) == ["preshared-key-1", "private-key"])
        #expect(try await tunnel.secrets.read("private-key", of: tunnel.profileID).count == 32)
        #expect(await tunnel.publicKey()?.count == 44)
        // A name without a path is one of wg-quick's folder.
        #expect(try await loader().load("wg0").source == path)
        #expect(try await loader(interface: "tun7").load(path).name == "tun7")
        let json = try tunnel.kind.json.text()
        #expect(!String(decoding: json, as: UTF8.self).contains(Samples.privateKey.prefix(12)))
    }

    @Test("A file without PrivateKey needs PostUp, and a profile has none")
    func privateKeyLater() async throws {
        let keyless = Samples.file().replacing(Samples.privateKey, with: "").replacing("PrivateKey = \n", with: "")
        let path = try folder.write(keyless, to: "wg0.conf")
        #expect(await problem(path)?.text.contains("PrivateKey") == true)
        let hook = "[Interface]\nPostUp = wg set %i private-key /etc/wireguard/%i.key\n"
        let text = keyless.replacing("[Interface]\n", with: hook, maxReplacements: 1)
        _ = try folder.write(text, to: "wg0.conf")
        let tunnel = try await loader().load(path)
        #expect(tunnel.configuration.privateKeyComesLater)
        #expect(tunnel.hooks.postUp == ["wg set wg0 private-key /etc/wireguard/wg0.key"])
        #expect(await tunnel.publicKey() == nil)
        #expect(throws: CommandProblem.self) { try WgQuickParts(CheckedFile(path: path)) }
        let captured = CapturedConsole()
        let checker = ConfigChecker(console: captured.console())
        #expect(checker.check([CheckedFile(path: path)], json: false) == 0, "\(captured.output)")
        // The process starts immediately; only what follows PostUp waits.
        for isWaiting in [true, false] {
            let command = try UpCommand.parse([path] + (isWaiting ? [] : ["--no-wait"]))
            let adapted = command.adapt(tunnel)
            #expect(adapted.wireGuard?.waitsForHandshake == false)
            #expect(adapted.proofAfterHooks == (isWaiting ? .seconds(30) : nil))
        }
    }

    @Test(
        "Names of files and tunnels",
        arguments: [
            ("/etc/wireguard/wg0.conf", "wg0"), ("a-b_c=d+e.f.conf", "a-b_c=d+e.f"), ("./x/y.conf", "y"),
            ("/a/interface-too-long.conf", nil), ("/a/..conf", nil), ("/a/b c.conf", nil), ("/a/wg0", nil),
            ("/a/é.conf", nil), (".conf", nil),
        ])
    func names(_ path: String, _ name: String?) {
        #expect(TunnelName.of(file: path) == name)
    }

    @Test("A tunnel that cannot be started causes an error with the reason and a separate status")
    func problems() async throws {
        #expect(await problem("wg9")?.status == ExitStatus.notFound)
        #expect(await problem(folder.path + "/none.conf")?.status == ExitStatus.notFound)
        #expect(await problem("../wg0/")?.status == ExitStatus.usage)
        let bad = try folder.write(Samples.file().replacing("51820", with: "99999"), to: "bad.conf")
        let mistake = try #require(await problem(bad))
        #expect(mistake.status == ExitStatus.usage)
        #expect(mistake.text.contains("bad.conf:9:"))
        let off = try folder.write(Samples.file("Table = off\nSaveConfig = true"), to: "off.conf")
        let tunnel = try await loader().load(off)
        #expect(!tunnel.configuration.makesRoutes)
        #expect(tunnel.warnings.count == 1 && tunnel.warnings[0].contains("SaveConfig"))
        let long = try folder.write(Samples.file(), to: "a-name-that-is-too-long.conf")
        #expect(await problem(long)?.text.contains("--interface") == true)
        #expect(await problem(long, interface: "wg1") == nil)
        let open = try folder.write(Samples.file(), to: "open.conf", mode: 0o644)
        #expect(try await loader().load(open).warnings.contains { $0.contains("chmod 600") })
    }

    @Test("A routing table by number or name is where the routes go; a strict leak policy does not go with it")
    func routingTable() async throws {
        let path = try folder.write(Samples.file("Table = 1234"), to: "table.conf")
        #expect(try await loader().load(path).configuration.routeTable == 1234)
        let strict = try UpCommand.parse([path, "--leak-policy", "enforced"])
        await #expect(throws: CommandProblem.self) { try await strict.load() }
        #expect(try await UpCommand.parse([path]).load().configuration.routeTable == 1234)
        try folder.write(Samples.file("Table = 254"), to: "table.conf")
        #expect(try await strict.load().configuration.leakPolicy == .enforcedRoutes)
        try folder.write(Samples.file("Table = off"), to: "table.conf")
        #expect(try await strict.load().configuration.leakPolicy == .enforcedRoutes)
        let everything = try UpCommand.parse([path, "--leak-policy", "everything"])
        await #expect(throws: CommandProblem.self) { try await everything.load() }
        try folder.write(Samples.file("Table = vpn-of-nobody"), to: "table.conf")
        let unknown = try #require(await problem(path))
        #expect(unknown.status == ExitStatus.usage && unknown.text.contains("'vpn-of-nobody'"))
        try folder.write(Samples.file("Table = default"), to: "table.conf")
        #expect(try await loader().load(path).configuration.routeTable == 253)
    }

    @Test("Names of routing tables are those of ip(8), the system's own files first")
    func tableNames() throws {
        let (first, second) = (try ScratchFolder(), try ScratchFolder())
        try first.write(
            "#\n# reserved\n255\tlocal\n  100 office # of the firm\n0x65 hex\n7 two words\n", to: "rt_tables")
        try FileManager.default.createDirectory(
            atPath: first.path + "/rt_tables.d", withIntermediateDirectories: false)
        try first.write("102 more\n", to: "rt_tables.d/a.conf")
        try first.write("103 other\n", to: "rt_tables.d/a.bak")
        try second.write("200 office\n201 vendor\nx bad\n", to: "rt_tables")
        let names = RoutingTableNames(folders: [first.path, second.path, first.path + "/none"])
        let expected: [(String, UInt32?)] = [
            ("office", 100), ("hex", 101), ("more", 102), ("other", nil), ("vendor", 201), ("bad", nil), ("two", nil),
            ("main", 254), ("#", nil),
        ]
        for (name, number) in expected { #expect(names.number(name) == number, "\(name)") }
    }

    @Test("Commands are taken from files that only root could have written")
    func hooks() async throws {
        let hooks = "PreUp = a %i\nPostUp = b %i %i\nPostUp = c\nPreDown = d\nPostDown = e"
        let path = try folder.write(Samples.file(hooks), to: "hook.conf")
        let tunnel = try await loader().load(path)
        #expect(tunnel.hooks.preUp == ["a hook"])
        #expect(tunnel.hooks.postUp == ["b hook hook", "c"])
        #expect(tunnel.hooks.preDown == ["d"])
        #expect(tunnel.hooks.postDown == ["e"])
        for mode in [0o620, 0o602] {
            try folder.write(Samples.file(hooks), to: "hook.conf", mode: mode)
            let problem = try #require(await problem(path))
            #expect(problem.status == ExitStatus.notPermitted)
            #expect(problem.text.contains("PostUp"))
        }
        // Without commands, it causes at most a warning.
        try folder.write(Samples.file(), to: "hook.conf", mode: 0o620)
        #expect(await self.problem(path) == nil)
        var foreign = CheckedFile(name: "f", bytes: Array(Samples.file(hooks).utf8))
        foreign.owner = geteuid() + 1
        #expect(throws: CommandProblem.self) { try loader().load(foreign, path: "f", name: "wg0") }
    }

    @Test("Options override the file")
    func options() async throws {
        let path = try folder.write(Samples.file(), to: "wg0.conf")
        func adapted(_ arguments: String...) async throws -> LoadedTunnel {
            let command = try UpCommand.parse([path] + arguments)
            return command.adapt(try await loader().load(path))
        }
        #expect(try await adapted().configuration.dns?.servers.count == 1)
        #expect(try await adapted("--no-dns").configuration.dns == nil)
        #expect(try await adapted("--leak-policy", "enforced").configuration.leakPolicy == .enforcedRoutes)
        #expect(try await adapted("--leak-policy", "everything").leakPolicy == .everything)
        #expect(try await adapted().configuration.allowsLocalNetwork)
        #expect(try await !adapted("--no-local-network").configuration.allowsLocalNetwork)
        let allowed = try await adapted("--allow-network", "192.168.7.0/24", "--allow-network", "fd00::/8")
        #expect(allowed.configuration.allowedNetworks.map(\.description) == ["192.168.7.0/24", "fd00::/8"])
        #expect(try await adapted("--ping", "10.7.0.1").configuration.connectivity.pingAddress == "10.7.0.1")
        #expect(try await !adapted("--no-monitor").configuration.connectivity.isEnabled)
        #expect(try await adapted().configuration.connectivity == ConnectivityOptions())
        let watched = try await adapted(
            "--connectivity-interval", "5", "--max-connection-attempts", "4", "--ping-interval", "0.5",
            "--end-when-dead", "at-once"
        ).configuration.connectivity
        #expect(
            watched
                == ConnectivityOptions(
                    connectivityInterval: 5, maxConnectionAttempts: 4, pingInterval: 0.5, endWhenDead: .atOnce))
        #expect(try await adapted().configuration.waitsForHandshake)
        let unhurried = try await adapted("--no-wait")
        #expect(!unhurried.configuration.waitsForHandshake)
        // The profile's value stays.
        #expect(try !UpCommand.parse([path]).adapt(unhurried).configuration.waitsForHandshake)
        #expect(try await adapted("--timeout", "5").configuration.handshakeTimeout == 5)
        let everything = try UpCommand.parse([path, "--allow-network", "0.0.0.0/0"])
        let problem = await #expect(throws: CommandProblem.self) { try await everything.load() }
        #expect(problem?.status == ExitStatus.usage)
        #expect(problem?.text.contains("allowedNetworks[0] '0.0.0.0/0' lets everything pass") == true)
        for wrong in [
            ["--leak-policy", "none"], ["--memory", "lots"], ["--timeout", "0"], ["--interface", "a/b"],
            ["--allow-network", "192.168.7.1/24"], ["--allow-network", "home"],
            ["--end-when-dead", "soon"], ["--ping-interval", "often"],
        ] {
            #expect(throws: (any Error).self) { try UpCommand.parse([path] + wrong) }
        }
    }

    @Test(
        "A tunnel for all of IPv4 leaves IPv6 outside, unless it is for that as well, or nothing may pass",
        arguments: [
            (["0.0.0.0/0"], true), (["0.0.0.0/1", "128.0.0.0/1"], true), (["0.0.0.0/0", "fd00::/8"], true),
            (["0.0.0.0/0", "::/0"], false), (["0.0.0.0/0", "::/1", "8000::/1"], false), (["10.0.0.0/8"], false),
            (["::/0"], false), (["0.0.0.0/0", "2000::/3"], false),
            (["1.0.0.0/8", "2.0.0.0/7", "4.0.0.0/6", "8.0.0.0/7", "11.0.0.0/8", "12.0.0.0/6", "16.0.0.0/4"], false),
        ])
    func ipv6Outside(_ routes: [String], _ isLeft: Bool) async throws {
        let path = try folder.write(Samples.file(), to: "wg0.conf")
        var configuration = try await loader().load(path).configuration
        configuration.peers[0].allowedIPs = try routes.map { try IPPrefix($0) }
        #expect(IPv6Outside.isLeft(by: configuration) == isLeft)
        configuration.leakPolicy = .enforcedRoutes
        #expect(IPv6Outside.isLeft(by: configuration) == isLeft)
        configuration.leakPolicy = .everything
        #expect(!IPv6Outside.isLeft(by: configuration))
        configuration.leakPolicy = .routeBased
        configuration.routeTable = 1234
        #expect(!IPv6Outside.isLeft(by: configuration))
        (configuration.routeTable, configuration.makesRoutes) = (nil, false)
        #expect(!IPv6Outside.isLeft(by: configuration))
    }

    @Test("A list of everything but private networks is for all of IPv4")
    func ipv6OutsideOfList() async throws {
        let path = try folder.write(Samples.file(), to: "wg0.conf")
        var configuration = try await loader().load(path).configuration
        let left = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "0.0.0.0/8", "224.0.0.0/3"]
        configuration.peers[0].allowedIPs = IPPrefix.allIPv4.subtracting(try left.map { try IPPrefix($0) })
        #expect(IPv6Outside.isLeft(by: configuration))
    }

    @Test("A host has IPv6 with a global address or a default route, not with addresses of its links and sites")
    func hostIPv6() throws {
        let inner = try ["fe80::1", "fd00::1", "::1", "192.0.2.1"].map { try IPAddress($0) }
        #expect(!IPv6Outside.isThere(inner, hasDefaultRoute: false))
        #expect(IPv6Outside.isThere(inner, hasDefaultRoute: true))
        #expect(IPv6Outside.isThere(inner + [try IPAddress("2001:db8::1")], hasDefaultRoute: false))
    }

    @Test("A profile comes before a file of the same name, and its policy counts")
    func profiles() async throws {
        try folder.write(Samples.file(), to: "home.conf")
        let captured = CapturedConsole()
        let profiles = ProfileFolder(path: folder.path + "/culvert")
        let tool = ProfileTool(folder: profiles, console: captured.console())
        #expect(try await loader().load("home").profile == nil)
        let path = folder.path + "/home.conf"
        try await tool.add(CheckedFile(path: path), path: path, name: nil, json: false)
        let tunnel = try await loader().load("home")
        #expect(tunnel.profile == "home")
        #expect(tunnel.source == "profile home")
        #expect(tunnel.configuration.allowsLocalNetwork)
        #expect(try await tunnel.secrets.read("private-key", of: tunnel.profileID).count == 32)
        let (manager, _) = try await profiles.manager()
        var profile = try #require(await manager.profiles.first)
        profile.leakPolicy = .enforcedRoutes
        try await manager.update(profile)
        #expect(try await loader().load("home").configuration.leakPolicy == .enforcedRoutes)
        profile.isEnabled = false
        try await manager.update(profile)
        #expect(await problem("home")?.text.contains("disabled") == true)
        profile.isEnabled = true
        profile.name = "My home"
        try await manager.update(profile)
        #expect(await problem("My home")?.text.contains("--interface") == true)
        #expect(await problem("My home", interface: "wg3") == nil)
    }
}
