// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import ArgumentParser
    import CTunnelSystem
    import CommandLineSupport
    import CommandLineTesting
    import Gateway
    import Provisioning
    import Testing
    import TunnelSystem

    @testable import culvert_gateway

    @Suite("Making a gateway's folder")
    struct InitToolTests {
        @Test("Init makes a folder with settings, keys and pins, and the backup key elsewhere")
        func make() throws {
            try Folder.with { folder in
                let captured = CapturedConsole()
                try folder.initialize(
                    ["vpn.example.com", "--dns", "9.9.9.9", "--label", "Example"], captured.console())
                #expect(captured.output.contains("Next:") && captured.output.contains("sha256/"))
                let made = try GatewayDirectory(existing: folder.gateway)
                let settings = try made.settings()
                #expect(settings.host == "vpn.example.com" && settings.label == "Example")
                #expect(settings.addresses.count == 2 && settings.problem == nil)
                let pins = try made.pins()
                #expect(captured.output.contains("\(pins.active)") && captured.output.contains("\(pins.backup)"))
                let backup = try folder.read("backup.key")
                #expect(backup.contains("PRIVATE KEY"))
                #expect(FileStatus(of: folder.path + "/backup.key")?.mode == 0o600)
                for name in [
                    "gateway.json", "server.key", "preshared.key", "api.key", "api.crt", "pins.json",
                ] {
                    #expect(FileStatus(of: "\(folder.gateway)/\(name)")?.mode == 0o600, "\(name)")
                    #expect(try folder.read("gateway/\(name)") != backup)
                }
                let keys = try made.serverKeys()
                #expect(keys.next == nil)
                let master = try made.presharedMaster()
                #expect(try GatewayDirectory(existing: folder.gateway).presharedMaster() == master)
                _ = try made.apiCertificate().tls(isModern: true)
            }
        }

        @Test("Init refuses an owner who cannot enter the folder's parent, and names the command that permits it")
        func parentOfOtherUser() throws {
            try Folder.with { folder in
                #expect(unsafe chmod(folder.path, 0o700) == 0)
                let failure = #expect(throws: CommandFailure.self) {
                    try folder.initialize(["vpn.example.com", "--owner", "daemon"], CapturedConsole().console())
                }
                #expect(failure?.status == ExitStatus.notPermitted)
                #expect(failure?.fix.contains("chmod 711 \(folder.path)") == true)
                #expect(FileStatus(of: folder.gateway) == nil)
            }
        }

        @Test("Init for the login tunnel alone prints the tunnel's port, and no invitation")
        func loginTunnelOnly() throws {
            try Folder.with { folder in
                let captured = CapturedConsole()
                try folder.initialize(["vpn.example.com", "--login-tunnel-only"], captured.console())
                let settings = try GatewayDirectory(existing: folder.gateway).settings()
                #expect(!settings.servesWireGuard && settings.loginTunnel.isEnabled && settings.problem == nil)
                #expect(captured.output.contains("UDP port 51840 for the login tunnel"))
                #expect(captured.output.contains("user password") && !captured.output.contains("invite"))
                #expect(!captured.output.contains("sha256/") && !captured.output.contains("device API"))
            }
        }

        @Test("Init for the login tunnel alone refuses the ports of devices", arguments: ["--port", "--api-port"])
        func loginTunnelOnlyPorts(_ option: String) throws {
            let arguments = ["vpn.example.com", "--backup-key", "/backup.key", option]
            let both = #expect(throws: (any Error).self) {
                _ = try InitCommand.parse(arguments + ["4000", "--login-tunnel-only"])
            }
            let words = InitCommand.message(for: try #require(both))
            #expect(words.hasPrefix("\(option) is for devices") && words.contains("loginTunnel.port in gateway.json"))
            let alone = try InitCommand.parse(arguments + ["4000"])
            #expect(alone.port.number == (option == "--port" ? 4000 : 51_820))
            #expect(alone.apiPort.number == (option == "--port" ? 8443 : 4000))
            #expect(throws: (any Error).self) { _ = try InitCommand.parse(arguments + ["65536"]) }
        }

        @Test("A folder with a gateway is left unchanged, and no backup key is left behind")
        func twice() throws {
            try Folder.with { folder in
                let captured = CapturedConsole()
                try folder.initialize(["vpn.example.com"], captured.console())
                let key = try folder.read("gateway/server.key")
                unsafe _ = unlink(folder.path + "/backup.key")
                let error = #expect(throws: CommandFailure.self) {
                    try folder.initialize(["vpn.example.com"], captured.console())
                }
                #expect(error?.status == ExitStatus.usage)
                #expect(try folder.read("gateway/server.key") == key)
                #expect(FileStatus(of: folder.path + "/backup.key") == nil)
            }
        }

        @Test("A backup key in the folder or over an existing file is refused")
        func backupPlace() throws {
            try Folder.with { folder in
                let captured = CapturedConsole()
                #expect(throws: CommandFailure.self) {
                    try folder.initialize(["x"], backup: "gateway/backup.key", captured.console())
                }
                try folder.initialize(["x"], captured.console())
                #expect(throws: CommandFailure.self) { try folder.initialize(["x"], captured.console()) }
            }
        }
    }

    /// A temporary folder for one test.
    struct Folder {
        let path: String
        var gateway: String { path + "/gateway" }

        static func with(_ body: (Folder) throws -> Void) throws {
            let folder = try make()
            defer { folder.remove() }
            try body(folder)
        }

        static func use(_ body: (Folder) async throws -> Void) async throws {
            let folder = try make()
            defer { folder.remove() }
            try await body(folder)
        }

        private static func make() throws -> Folder {
            let folder = Folder(path: "/tmp/culvert-gateway-\(UInt64.random(in: 0..<UInt64.max))")
            try #require(unsafe mkdir(folder.path, 0o700) == 0)
            return folder
        }

        func remove() {
            for name in FolderContents.names(gateway) ?? [] where name != "." && name != ".." {
                unsafe _ = unlink("\(gateway)/\(name)")
            }
            unsafe _ = rmdir(gateway)
            for name in FolderContents.names(path) ?? [] { unsafe _ = unlink("\(path)/\(name)") }
            unsafe _ = rmdir(path)
        }

        func read(_ name: String) throws -> String {
            let file = OwnedDescriptor(SystemCall.open("\(path)/\(name)", O_RDONLY))
            return String(decoding: try #require(SystemCall.readAll(file.number, limit: 1 << 20)), as: UTF8.self)
        }

        func initialize(_ arguments: [String], backup: String = "backup.key", _ console: Console) throws {
            let command = try InitCommand.parse(
                arguments + ["--backup-key", "\(path)/\(backup)", "--directory", gateway])
            try InitTool(console: console, directory: gateway).make(command)
        }
    }
#endif
