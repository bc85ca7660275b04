// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    extension CulvertUpTests {
        @Suite("With wg", .timeLimit(.minutes(5)))
        struct WgTests {
            private static let socketFolder = "/var/run/wireguard"

            @Test(
                "wg-quick's own example: PostUp gives the key; what wg set changes lasts through a reload, and the mark stays"
            )
            func keyFromPostUp() throws {
                let scene = try CulvertUpScene()
                let key = try scene.files.write(scene.privateKey + "\n", to: "key")
                let hook = "PostUp = wg set %i private-key \(key)"
                let file = try scene.writeFile(interface: hook, hasKey: false)
                let up = try scene.succeed("up", file)
                #expect(up.contains("\(scene.name): connected after"), "\(up)")
                try scene.ping()
                var dump = try Wg.dump(scene.name)
                #expect(dump.privateKey == scene.privateKey)
                #expect(try scene.status()["publicKey"] as? String == dump.publicKey)
                #expect(dump.peers.count == 1 && dump.peers[0].received > 0)
                let mark = dump.mark
                #expect(mark != "off")

                let added = StaticKeys()
                try Wg.run(
                    "set", scene.name, "fwmark", "7", "listen-port", "40123", "peer", added.publicKey.base64,
                    "allowed-ips",
                    "198.51.100.0/24")
                dump = try Wg.dump(scene.name)
                #expect(dump.mark == mark && dump.listenPort == 40_123 && dump.peers.count == 2)
                let log = try scene.succeed("log", scene.name)
                #expect(log.contains("wg has changed the port, 1 peers"), "\(log)")
                #expect(log.contains("the mark is the tunnel's own, and stays"))
                #expect(!log.contains(scene.privateKey))

                try scene.writeFile(interface: hook + "\nMTU = 1380", hasKey: false)
                try scene.succeed("reload", scene.name)
                #expect(try scene.world.host.run("ip", "link", "show", scene.name).output.contains(" mtu 1380 "))
                dump = try Wg.dump(scene.name)
                #expect(dump.privateKey == scene.privateKey && dump.mark == mark && dump.listenPort == 40_123)
                #expect(dump.peers.contains { $0.publicKey == added.publicKey.base64 })
                try scene.ping()

                // Deleting the socket in /run does not end the tunnel.
                try FileManager.default.removeItem(atPath: "\(Self.socketFolder)/\(scene.name).sock")
                try eventually("the log says so") {
                    try scene.succeed("log", scene.name).contains("the management socket was removed")
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "No command of wg lets packets leave outside a tunnel with a policy, and down removes its socket")
            func policyHolds() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let socket = "\(Self.socketFolder)/\(scene.name).sock"
                try scene.ping()
                let server = try Wg.dump(scene.name).peers[0].publicKey
                try Wg.run("set", scene.name, "fwmark", "0")
                try scene.ping()
                try Wg.run("set", scene.name, "peer", server, "remove")
                #expect(try scene.way(to: "203.0.113.7") == scene.name)
                let ping = ["ping", "-n", "-q", "-c", "1", "-W", "1"]
                for way in [[], ["-I", "eth0"]] {
                    let inside = ["ip", "netns", "exec", scene.world.host.name] + ping + way + ["203.0.113.7"]
                    let result = try PrivilegedTests.runAllowingFailure(inside)
                    #expect(result.status != 0, "\(result)")
                }
                // The state that a killed process leaves.
                try scene.killProcess()
                #expect(FileManager.default.fileExists(atPath: socket))
                try scene.succeed("down", scene.name)
                #expect(!FileManager.default.fileExists(atPath: socket))
                try scene.expectUnchanged()
            }
        }
    }
#endif
