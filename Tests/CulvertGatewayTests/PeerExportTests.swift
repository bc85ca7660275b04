// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import ArgumentParser
    import CTunnelSystem
    import CommandLineSupport
    import CommandLineTesting
    import FoundationEssentials
    import Gateway
    import NetworkAddresses
    import PacketTunnelLinux
    import PacketTunnelTesting
    import Provisioning
    import Testing
    import TunnelSystem
    import WireGuardCore

    @testable import culvert_gateway

    @Suite("Exporting a stock client's configuration again")
    struct PeerExportTests {
        private let key: PrivateKey
        private let keys: [PublicKey]
        private let grant: EnrolmentGrant

        init() throws {
            var random = SeededGenerator(seed: 3)
            key = PrivateKey(using: &random)
            let keys = (0..<3).map { _ in PrivateKey(using: &random).publicKey }
            self.keys = keys
            grant = EnrolmentGrant(
                device: .init(
                    id: RandomID(using: &random), name: "office", user: "anna", publicKey: key.publicKey,
                    createdAt: .distantPast),
                addresses: [try IPAddress("10.66.0.2")],
                servers: [.init(publicKey: keys[0], endpoints: [try EndpointAddress("vpn.example.com:51820")])],
                dns: [try IPAddress("9.9.9.9")], routes: [.allIPv4], presharedKey: PresharedKey(using: &random),
                renewAfterSeconds: 1, serverTime: Date(timeIntervalSince1970: 1_800_000_000))
        }

        /// The grant while another key is announced.
        private func announced(in seconds: Int64) -> EnrolmentGrant {
            var grant = grant
            grant.servers[0].notAfterSeconds = seconds
            grant.servers.append(.init(publicKey: keys[1], endpoints: grant.servers[0].endpoints))
            return grant
        }

        /// The file of the client: one of another time, changed by hand.
        private func file(_ folder: Folder, key: PrivateKey, peer: PublicKey, _ more: String = "") throws -> String {
            let path = "\(folder.path)/office.conf"
            let text = """
                # the office
                [Interface]
                PrivateKey = \(key.exportedBase64)
                Address = 10.66.0.9/32
                ListenPort = 41414
                PostUp = echo up

                [Peer]
                PublicKey = \(peer.base64)
                AllowedIPs = 10.0.0.0/8
                Endpoint = old.example.com:51820
                \(more)
                """
            try SecretFile.write(text, to: path, console: CapturedConsole().console())
            return path
        }

        @Test("The file gets the gateway's present settings, and keeps its private key and its own settings")
        func merged() throws {
            try Folder.with { folder in
                let path = try file(folder, key: key, peer: keys[2])
                let captured = CapturedConsole()
                let old = try ClientFile(path)
                let written = try PeerExport(grant, next: false).configuration(replacing: old)
                try old.replace(with: written.text, captured.console())
                let read = try TunnelConfiguration.parse(try folder.read("office.conf"))
                #expect(read == written.configuration)
                #expect(read.interface.privateKey == key && read.interface.addresses.map(\.address) == grant.addresses)
                #expect(read.interface.listenPort == 41_414 && read.interface.postUp == ["echo up"])
                #expect(read.interface.dnsServers == grant.dns)
                let peer = try #require(read.peers.first)
                #expect(read.peers.count == 1 && peer.publicKey == keys[0] && peer.allowedIPs == grant.routes)
                #expect(peer.endpoint == grant.servers[0].endpoints[0] && peer.presharedKey == grant.presharedKey)
                #expect(FileStatus(of: path)?.mode == 0o600 && FileStatus(of: "\(path).new") == nil)
                #expect(captured.error.contains(path) && captured.output.isEmpty)
            }
        }

        @Test("Other peers of the file are kept, and a file whose gateway is unknown is refused")
        func otherPeers() throws {
            try Folder.with { folder in
                let other = "[Peer]\nPublicKey = \(keys[2].base64)\nAllowedIPs = 192.168.7.0/24\n"
                for (present, isKnown) in [(keys[0], true), (keys[1], true), (key.publicKey, false)] {
                    let path = try file(folder, key: key, peer: present, other)
                    let export = try PeerExport(announced(in: 60), next: true)
                    let old = try ClientFile(path)
                    if isKnown {
                        let peers = try export.configuration(replacing: old).configuration.peers
                        #expect(peers.map(\.publicKey) == [keys[1], keys[2]])
                        #expect(peers[1].allowedIPs == [try IPPrefix("192.168.7.0/24")])
                    } else {
                        let error = #expect(throws: CommandFailure.self) {
                            try export.configuration(replacing: old)
                        }
                        #expect(error?.status == ExitStatus.usage && error?.reason.contains("2 peers") == true)
                    }
                    unsafe _ = unlink(path)
                }
            }
        }

        @Test("A file with another private key, without one, or with an error is refused unchanged")
        func foreign() throws {
            try Folder.with { folder in
                var random = SeededGenerator(seed: 4)
                let path = try file(folder, key: PrivateKey(using: &random), peer: keys[0])
                let before = try folder.read("office.conf")
                let error = #expect(throws: CommandFailure.self) {
                    try PeerExport(grant, next: false).configuration(replacing: try ClientFile(path))
                }
                #expect(error?.status == ExitStatus.usage && error?.reason.contains("'office'") == true)
                #expect(try folder.read("office.conf") == before)
                for text in ["[Interface]\n", "nonsense"] {
                    try SecretFile.replace(path, with: text)
                    #expect(throws: CommandFailure.self) { try ClientFile(path) }
                }
                #expect(throws: CommandFailure.self) { try ClientFile("\(folder.path)/missing.conf") }
            }
        }

        @Test("Without a file, the configuration has no private key, and a notice names this")
        func withoutKey() throws {
            let export = try PeerExport(grant, next: false)
            let text = try export.configuration(replacing: nil).text
            #expect(!text.contains("PrivateKey") && text.contains("PublicKey = \(keys[0].base64)"))
            #expect(export.notices(isComplete: false).map { $0.contains("no PrivateKey") } == [true])
            #expect(export.notices(isComplete: true).isEmpty)
        }

        @Test("--next selects the announced key, which is the default once its time has come")
        func next() throws {
            let error = #expect(throws: CommandFailure.self) { try PeerExport(grant, next: true) }
            #expect(error?.status == ExitStatus.usage && error?.fix.contains("key announce") == true)
            for (grant, next, index) in [
                (announced(in: 60), false, 0), (announced(in: 60), true, 1), (announced(in: 0), false, 1),
            ] {
                let export = try PeerExport(grant, next: next)
                #expect(export.server.publicKey == keys[index])
                #expect(try export.configuration(replacing: nil).configuration.peers.map(\.publicKey) == [keys[index]])
            }
            // 60 seconds after the gateway's time.
            let time = "2027-01-15T08:01:00Z"
            for (next, words) in [(false, "until \(time)"), (true, "from \(time) on")] {
                let notices = try PeerExport(announced(in: 60), next: next).notices(isComplete: true)
                #expect(notices.map { $0.contains(words) } == [true], "\(notices)")
            }
            #expect(try PeerExport(announced(in: 0), next: false).notices(isComplete: true).isEmpty)
        }

        @Test("A QR code needs the client's private key")
        func qr() throws {
            #expect(throws: (any Error).self) { try PeerCommand.Export.parse(["office", "--qr"]) }
            #expect(try PeerCommand.Export.parse(["office", "--qr", "--file", "office.conf"]).qr)
        }
    }

    @Suite("The stock clients that need a new file", .timeLimit(.minutes(2)))
    struct StockClientTests {
        @Test("'key announce' and 'key status' list the stock clients with the login of their user")
        func listed() async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let api = try AnsweringSocket(folder, isFull: true)
                for command in ["key announce", "key status"] {
                    let outcome = try await api.run(command, [])
                    #expect(outcome.status == ExitStatus.success, "\(outcome)")
                    #expect(outcome.output.contains("Stock clients that need a new file"), "\(outcome)")
                    #expect(outcome.output.contains("culvert gateway peer export NAME --next --file FILE"))
                    let json = try JSON.read(Array(try await api.output(of: command, []).utf8))
                    let clients = try #require(json["stockClients"]?.list)
                    #expect(clients.map { $0["id"] } == [.string(AnsweringSocket.id)])
                    #expect(clients.map { $0["login"] } == ["sample"] && clients.map { $0["name"] } == ["sample"])
                }
                // The list is read before the key is announced.
                api.forgetRequests()
                _ = try await api.run("key announce", [])
                #expect(api.requests.map { $0.prefix(4) } == ["GET ", "GET ", "POST"], "\(api.requests)")
            }
            // Without an announced key, no client must change.
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let quiet = try AnsweringSocket(folder, isFull: false)
                let json = try JSON.read(Array(try await quiet.output(of: "key status", []).utf8))
                #expect(json["stockClients"] == .array([]) && json["nextServerKey"] == nil)
            }
        }
    }

    @Suite("Activating the backup key of a gateway")
    struct BackupKeyToolTests {
        private func activate(
            _ folder: Folder, _ file: String, new: String, json: Bool = false, _ console: Console
        ) async throws(CommandFailure) {
            try await BackupKeyTool(console: console, directory: folder.gateway, json: json)
                .activate("\(folder.path)/\(file)", newBackupKey: "\(folder.path)/\(new)")
        }

        // The privileged tests have a folder of another user: the command changes the user of the whole process.
        @Test("The backup key replaces the active key, and files keep their owner")
        func replaces() async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let before = try GatewayDirectory(existing: folder.gateway).pins()
                let owner = FileStatus(of: folder.gateway)?.owner
                let captured = CapturedConsole()
                try await activate(folder, "backup.key", new: "backup-2.key", captured.console())
                for name in FolderContents.names(folder.gateway) ?? [] {
                    let status = FileStatus(of: "\(folder.gateway)/\(name)")
                    #expect(status?.owner == owner && status?.mode == 0o600, "\(name)")
                }
                #expect(geteuid() == getuid() && getegid() == getgid())
                let new = FileStatus(of: "\(folder.path)/backup-2.key")
                #expect(new?.owner == geteuid() && new?.mode == 0o600)
                #expect(captured.output.contains("\(before.backup)") && !captured.output.contains("\(before.active)"))
                #expect(captured.output.contains("\(folder.path)/backup-2.key"))
                // The new backup key replaces the active key in its turn.
                try await activate(folder, "backup-2.key", new: "backup-3.key", json: true, captured.console())
                #expect(captured.output.contains("backup-3.key"))
            }
        }

        @Test("Another file than the backup key is refused, and nothing is changed")
        func refused() async throws {
            try await Folder.use { folder in
                try folder.initialize(["vpn.example.com"], CapturedConsole().console())
                let key = try folder.read("gateway/api.key")
                for file in ["gateway/api.key", "gateway/server.key", "missing.key"] {
                    await #expect(throws: CommandFailure.self, "\(file)") {
                        try await activate(folder, file, new: "new.key", CapturedConsole().console())
                    }
                    #expect(try folder.read("gateway/api.key") == key)
                    #expect(FileStatus(of: "\(folder.path)/new.key") == nil)
                }
                let missing = Folder(path: folder.path + "/none")
                let error = await #expect(throws: CommandFailure.self) {
                    try await activate(missing, "../backup.key", new: "new.key", CapturedConsole().console())
                }
                #expect(error?.status == ExitStatus.notFound)
            }
        }
    }
#endif
