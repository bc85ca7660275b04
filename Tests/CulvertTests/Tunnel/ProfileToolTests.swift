// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import CredentialTunnel
import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import WireGuardTunnel

@testable import culvert

@Suite("culvert profile")
struct ProfileToolTests {
    private let folder: ScratchFolder
    private let captured = CapturedConsole()
    private let tool: ProfileTool

    init() throws {
        folder = try ScratchFolder()
        tool = ProfileTool(
            folder: ProfileFolder(path: folder.path + "/culvert"), console: captured.console(),
            runtime: RuntimeDirectory(path: folder.path + "/run"))
    }

    private func add(_ text: String = Samples.file(), name: String? = "home") async throws(CommandProblem) {
        let file = CheckedFile(name: "x.conf", bytes: Array(text.utf8))
        try await tool.add(file, path: "/tmp/x.conf", name: name, json: false)
    }

    private func status(_ body: () async throws(CommandProblem) -> Void) async -> Int32 {
        do throws(CommandProblem) {
            try await body()
            return 0
        } catch {
            return error.status
        }
    }

    @Test("A profile with a login is added, shown without its secrets, changed, and loaded to be started")
    func login() async throws {
        let key = "mS4w5aZqHY0Ko5V7Yt4LR/wVBuaRu7C0hJ8ZL0E8LGo="
        try folder.write(key + "\n", to: "psk")
        let change = LoginChange(
            name: "office", server: "vpn.example:4500", serverKey: key, login: "kean",
            presharedKeyFile: folder.path + "/psk")
        try await tool.addLogin(change) { (_) throws(CommandProblem) in SecretBytes(Array("123456".utf8)) }
        try await tool.list(json: false)
        #expect(captured.output.contains("office  vpn.example:4500  route-based\n"))
        try await tool.show("office", showsSecrets: false, json: false)
        #expect(captured.output.contains("Login = kean\nPassword = (hidden)\nPresharedKey = (hidden)\n"))
        #expect(!captured.output.contains("123456"))
        try await tool.show("office", showsSecrets: true, json: false)
        #expect(captured.output.contains("Password = 123456\nPresharedKey = \(key)\n"))
        // Options that are not given keep their value.
        try await tool.addLogin(LoginChange(name: "office", server: "vpn.example:4501")) { isNew in
            #expect(!isNew)
            return nil
        }
        let tunnel = try await TunnelLoader(profiles: tool.folder).load("office")
        guard case .login(let configuration) = tunnel.kind else {
            Issue.record("\(tunnel.kind)")
            return
        }
        #expect(configuration.server == "vpn.example:4501" && configuration.login == "kean")
        #expect(try await tunnel.secrets.read("password", of: tunnel.profileID).bytes == Array("123456".utf8))
        // Mistakes are reported before anything is stored.
        var bad = change
        bad.name = "other"
        bad.serverKey = "short"
        let status = await status { () throws(CommandProblem) in
            try await tool.addLogin(bad) { (_) throws(CommandProblem) in nil }
        }
        #expect(status == ExitStatus.usage)
    }

    @Test("A profile is added, listed, shown and removed")
    func wholeLife() async throws {
        try await tool.list(json: false)
        #expect(captured.output == "no profiles in \(folder.path)/culvert\n")
        #expect(await status { () throws(CommandProblem) in try await tool.remove("home") } == ExitStatus.notFound)
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/culvert"), "looking makes no folder")
        try await add()
        try await add(Samples.file("PostUp = a"), name: nil)
        #expect(captured.error.contains("a profile cannot contain PostUp"))
        try await tool.list(json: false)
        #expect(captured.output.contains("home  192.0.2.1:51820  route-based\n"))
        #expect(captured.output.contains("\nx "))
        try await tool.remove("home")
        #expect(await status { () throws(CommandProblem) in try await tool.remove("home") } == ExitStatus.notFound)
        let (manager, errors) = try await tool.folder.manager()
        #expect(await manager.profiles.map(\.name) == ["x"])
        #expect(errors.isEmpty)
        let secrets = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/culvert/secrets")
        #expect(secrets == (await manager.profiles.map(\.id)))
    }

    @Test("Keys are hidden unless asked for, and a shown profile can be added again")
    func secrets() async throws {
        try await add()
        try await tool.show("home", showsSecrets: false, json: false)
        let hidden = captured.output
        #expect(hidden.contains("PrivateKey = (hidden)\n") && hidden.contains("PresharedKey = (hidden)\n"))
        #expect(!hidden.contains(Samples.privateKey) && !hidden.contains(Samples.presharedKey))
        let shown = CapturedConsole()
        let other = ProfileTool(folder: tool.folder, console: shown.console(outputIsWorldAccessible: true))
        try await other.show("home", showsSecrets: true, json: false)
        #expect(shown.output.contains("PrivateKey = \(Samples.privateKey)\n"))
        #expect(shown.output.contains("PresharedKey = \(Samples.presharedKey)\n"))
        #expect(shown.error.contains("every user"))
        try await add(shown.output, name: "again")
        let second = CapturedConsole()
        try await ProfileTool(folder: tool.folder, console: second.console())
            .show("again", showsSecrets: true, json: false)
        #expect(second.output == shown.output)
    }

    @Test("A profile keeps its leak policy and its routing table, which do not go together")
    func policyAndTable() async throws {
        let plain = CheckedFile(name: "x.conf", bytes: Array(Samples.file().utf8))
        try await tool.add(plain, path: "x.conf", name: "strict", json: false) {
            $0.leakPolicy = .enforcedRoutes
        }
        try await tool.list(json: false)
        #expect(captured.output.contains("strict  192.0.2.1:51820  enforced\n"), "\(captured.output)")
        let loader = TunnelLoader(wireGuardFolder: folder.path, profiles: tool.folder)
        #expect(try await loader.load("strict").configuration.leakPolicy == .enforcedRoutes)
        let table = CheckedFile(name: "t.conf", bytes: Array(Samples.file("Table = 77").utf8))
        let both = await status { () throws(CommandProblem) in
            try await tool.add(table, path: "t.conf", name: "both", json: false) { $0.leakPolicy = .everything }
        }
        #expect(both == ExitStatus.usage)
        try await tool.add(table, path: "t.conf", name: "table", json: false)
        #expect(!captured.error.contains("Table"))
        try await tool.show("table", showsSecrets: false, json: false)
        #expect(captured.output.contains("\nTable = 77\n"))
        #expect(try await loader.load("table").configuration.routeTable == 77)
    }

    @Test("A profile stores the traffic that may leave outside its tunnel, and up adds to it")
    func passing() async throws {
        let plain = CheckedFile(name: "x.conf", bytes: Array(Samples.file().utf8))
        let options = try LeakPolicyOptions.parse(["--no-local-network", "--allow-network", "192.168.7.0/24"])
        try await tool.add(plain, path: "x.conf", name: "home", json: false, adjust: options.apply)
        try await tool.show("home", showsSecrets: false, json: true)
        #expect(captured.output.contains("\"allowsLocalNetwork\": false"), "\(captured.output)")
        #expect(captured.output.contains("192.168.7.0/24"))
        let folder = tool.folder.path
        let up = try UpCommand.parse(["home", "--directory", folder, "--allow-network", "fd00::/8"])
        let configuration = try await up.load().configuration
        #expect(configuration.allowedNetworks.map(\.description) == ["192.168.7.0/24", "fd00::/8"])
        #expect(!configuration.allowsLocalNetwork)
        let again = try UpCommand.parse(["home", "--directory", folder, "--local-network"])
        #expect(try await again.load().configuration.allowsLocalNetwork)
        let everything = try LeakPolicyOptions.parse(["--allow-network", "::/0"])
        let refused = await status { () throws(CommandProblem) in
            try await tool.add(plain, path: "x.conf", name: "open", json: false, adjust: everything.apply)
        }
        #expect(refused == ExitStatus.usage)
    }

    @Test("A profile stores the reaction to a dead tunnel, and up changes it")
    func connectivity() async throws {
        let plain = CheckedFile(name: "x.conf", bytes: Array(Samples.file().utf8))
        let options = try ConnectivityArguments.parse(["--ping", "10.7.0.1", "--end-when-dead", "after-healing"])
        try await tool.add(plain, path: "x.conf", name: "home", json: false) {
            options.apply(to: &$0.connectivity)
        }
        try await tool.show("home", showsSecrets: false, json: true)
        for part in [#""endWhenDead": "after-healing""#, #""ping": "10.7.0.1""#, #""pingInterval": 2.000"#] {
            #expect(captured.output.contains(part), "\(captured.output)")
        }
        let folder = tool.folder.path
        func loaded(_ arguments: String...) async throws -> ConnectivityOptions {
            try await UpCommand.parse(["home", "--directory", folder] + arguments).load().configuration.connectivity
        }
        #expect(try await loaded().endWhenDead == .afterHealing)
        #expect(try await loaded("--end-when-dead", "never").endWhenDead == .never)
        #expect(try await loaded("--end-when-dead", "never").pingAddress == "10.7.0.1")
        let wrong = try UpCommand.parse(["home", "--directory", folder, "--connectivity-interval", "0"])
        let problem = await #expect(throws: CommandProblem.self) { try await wrong.load() }
        #expect(problem?.text.contains("connectivity.connectivityInterval '0.0'") == true)
    }

    @Test("JSON has the same, and no key unless asked for")
    func json() async throws {
        try await add()
        try await tool.show("home", showsSecrets: false, json: true)
        let document = try JSONSerialization.jsonObject(
            with: Data(captured.output.split(separator: "\n").dropFirst().joined().utf8))
        let object = try #require(document as? [String: Any])
        #expect(object["name"] as? String == "home")
        #expect(object["leakPolicy"] as? String == "route-based")
        let configuration = try #require(object["configuration"] as? [String: Any])
        #expect(configuration["privateKey"] is NSNull)
        #expect(configuration["addresses"] as? [String] == ["10.7.0.2/24", "fd07::2/64"])
        #expect(!captured.output.contains(Samples.privateKey))
    }

    @Test("Only the owner can read the stored files")
    func modes() async throws {
        try await add()
        let top = folder.path + "/culvert"
        func mode(_ path: String) throws -> Int {
            try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
        }
        #expect(try mode(top) == 0o700)
        #expect(try mode(top + "/secrets") == 0o700)
        let walker = try #require(FileManager.default.enumerator(atPath: top + "/secrets"))
        var files = 0
        for case let path as String in walker {
            let isFile = path.contains("/")
            #expect(try mode("\(top)/secrets/\(path)") == (isFile ? 0o600 : 0o700))
            files += isFile ? 1 : 0
        }
        #expect(files == 2)
        let file = try #require(FileManager.default.contentsOfDirectory(atPath: top + "/profiles").first)
        #expect(try !String(contentsOfFile: "\(top)/profiles/\(file)", encoding: .utf8).contains(Samples.privateKey))
    }

    @Test("A file that cannot be added causes an error with the reason")
    func problems() async throws {
        try await add()
        #expect(await status { () throws(CommandProblem) in try await add() } == ExitStatus.usage)
        #expect(await status { () throws(CommandProblem) in try await add(name: "a b") } == ExitStatus.usage)
        #expect(
            await status { () throws(CommandProblem) in try await add("[Interface]\n", name: "b") } == ExitStatus.usage)
        #expect(
            await status { () throws(CommandProblem) in
                try await tool.show("none", showsSecrets: false, json: false)
            } == ExitStatus.notFound)
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o755], ofItemAtPath: folder.path + "/culvert/secrets")
        #expect(
            await status { () throws(CommandProblem) in try await tool.list(json: false) } == ExitStatus.notPermitted)
    }

    @Test("Removing the profile of a tunnel that is up takes that down, and no other")
    func running() async throws {
        try await add()
        let run = try ScratchFolder()
        let host = FakeHost()
        host.set(.connected)
        let service = try host.serve("home", in: run)
        let tool = ProfileTool(
            folder: tool.folder, console: captured.console(), runtime: RuntimeDirectory(path: run.path))
        // That tunnel comes from a file.
        try await tool.remove("home")
        #expect(host.status.status == .connected)
        await service.close()
    }
}
