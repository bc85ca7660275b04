// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// The replacement of a gateway's keys, by the commands of docs/gateway.md.
    @Suite(
        "Keys of a gateway that are replaced", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct GatewayKeyTests {
        @Test("The backup key replaces a lost API key twice, and an enrolled device renews each time")
        func backupKey() throws {
            let scene = try GatewayProgramScene()
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.run()
            try scene.enrolOffice(of: "anna", in: anna)
            var key = scene.files.path + "/backup.key"
            let running = try scene.attempt(
                "gateway", "key", "activate-backup", key, "--new-backup-key", scene.files.path + "/x.key")
            #expect(running.status == 5 && running.output.contains("stop it first"), "\(running)")
            for number in 2...3 {
                try scene.stop()
                try FileManager.default.removeItem(atPath: "\(GatewayProgramScene.directory)/api.key")
                let lost = try scene.attempt("gateway", "run")
                #expect(lost.status == 3 && lost.output.contains("culvert gateway key activate-backup"), "\(lost)")
                let new = scene.files.path + "/backup-\(number).key"
                let output = try scene.culvert("gateway", "key", "activate-backup", key, "--new-backup-key", new)
                #expect(output.contains("is now the active key") && output.contains(new), "\(output)")
                let attributes = try FileManager.default.attributesOfItem(atPath: new)
                #expect(attributes[.posixPermissions] as? Int == 0o600)
                #expect(attributes[.ownerAccountID] as? Int == 0)
                try scene.run()
                #expect(try scene.culvert("enroll", "renew", "office", in: anna).contains("renewed"))
                key = new
            }
            #expect(try scene.culvert("gateway", "audit", "--action", "backupKeyActivated").contains("local:0"))
            try scene.stop()
        }

        @Test("A stock client connects after the switch with the file that 'peer export --next' wrote")
        func export() throws {
            let scene = try GatewayProgramScene()
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            let settings = "\(GatewayProgramScene.directory)/gateway.json"
            var text = try String(contentsOfFile: settings, encoding: .utf8)
            text.replace(/"serverKeyOverlapSeconds" *: *[0-9]+/, with: #""serverKeyOverlapSeconds": 20"#)
            try text.write(toFile: settings, atomically: false, encoding: .utf8)
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            let daemon = try DaemonProcess(.wireguardGo, in: anna)
            let file = scene.files.path + "/\(daemon.name).conf"
            try scene.culvert("gateway", "peer", "add", "phone", "--user", "anna", "--export", file)
            let old = try String(contentsOfFile: file, encoding: .utf8)

            let announced = try scene.culvert("gateway", "key", "announce")
            #expect(announced.contains("Stock clients that need a new file") && announced.contains("phone"))
            let exported = try scene.culvert("gateway", "peer", "export", "phone", "--file", file, "--next")
            #expect(exported.contains("It works from "), "\(exported)")
            let new = try String(contentsOfFile: file, encoding: .utf8)
            func lines(_ text: String, _ prefix: String) -> [Substring] {
                text.split(separator: "\n").filter { $0.hasPrefix(prefix) }
            }
            #expect(lines(new, "PublicKey") != lines(old, "PublicKey"))
            for kept in ["PrivateKey", "PresharedKey", "Address", "Endpoint"] {
                #expect(lines(new, kept) == lines(old, kept), "\(kept)")
            }
            let bare = try scene.culvert("gateway", "peer", "export", "phone")
            #expect(lines(bare, "PublicKey") == lines(old, "PublicKey") && lines(bare, "PrivateKey").isEmpty)

            try Wg.configure(daemon.name, try PrivilegedTests.run(["wg-quick", "strip", file]).output)
            let address = try #require(new.firstMatch(of: /10\.66\.\d+\.\d+/)).0
            try anna.run("ip", "address", "add", "\(address)/32", "dev", daemon.name)
            try anna.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            try anna.run("ip", "route", "add", "\(GatewayProgramScene.server)/32", "dev", daemon.name)
            #expect(try scene.pings(GatewayProgramScene.server, from: anna, patience: 60))
            let status = try scene.culvert("gateway", "key", "status", "--json")
            #expect(status.contains(#""stockClients": []"#) && !status.contains("nextServerKey"), "\(status)")
            _ = try daemon.stop()
            try scene.stop()
        }
    }
#endif
