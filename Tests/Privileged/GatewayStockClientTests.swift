// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import Foundation
    import Testing

    /// Stock WireGuard clients, with the files that the gateway's administrator exports.
    @Suite(
        "Stock clients of a gateway", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct GatewayStockClientTests {
        /// A running gateway and a device's configuration, with the output of the export.
        private func made(
            _ more: String...
        ) throws -> (scene: GatewayProgramScene, configuration: String, output: String) {
            let scene = try GatewayProgramScene()
            try scene.network.anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            let file = scene.files.path + "/phone.conf"
            let output = try scene.culvert(
                "gateway", "peer", "add", "phone", "--user", "anna", "--export", file, more: more)
            #expect(output.contains("'phone' was added; its configuration is in \(file)"), "\(output)")
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
            return (scene, try String(contentsOfFile: file, encoding: .utf8), output)
        }

        /// Expects that a device reaches everything that it should, with the gateway's address as source.
        private func expectTunnel(_ scene: GatewayProgramScene) throws {
            let anna = scene.network.anna
            for address in [GatewayProgramScene.inner, "fd66::1", GatewayProgramScene.server, "2001:db8:7::7"] {
                #expect(try scene.pings(address, from: anna, patience: 9), "\(address)")
            }
            #expect(try scene.seenSource(of: anna) == GatewayProgramScene.host)
            let peers = try scene.culvert("gateway", "peer", "list", "--json")
            let document = try JSONSerialization.jsonObject(with: Data(peers.utf8)) as? [String: [[String: Any]]]
            #expect(document?["devices"]?.first?["name"] as? String == "phone")
        }

        /// Expects that a revoked device loses its connection.
        private func expectRevocable(_ scene: GatewayProgramScene) throws {
            try scene.culvert("gateway", "peer", "revoke", "phone")
            try eventually("the device is cut off") {
                try !scene.pings(GatewayProgramScene.inner, from: scene.network.anna)
            }
        }

        @Test("The exported file, by wg(8) in a stock daemon", arguments: DaemonProgram.allCases)
        func daemon(_ program: DaemonProgram) throws {
            let (scene, text, _) = try made()
            let anna = scene.network.anna
            let daemon = try DaemonProcess(program, in: anna)
            try scene.configure(daemon, with: text, via: "198.51.100.1")
            try expectTunnel(scene)
            let peer = try #require(try Wg.dump(daemon.name).peers.first)
            #expect(peer.endpoint == "\(GatewayProgramScene.host):51820" && peer.keepalive == "25")
            #expect(peer.presharedKey != "(none)" && peer.latestHandshake > 0)
            try expectRevocable(scene)
            try scene.stop()
        }

        @Test(
            "The same from its QR code, by wg-quick(8): all traffic through the tunnel, and name servers",
            arguments: DaemonProgram.allCases)
        func quick(_ program: DaemonProgram) throws {
            let (scene, text, output) = try made("--qr")
            let code = try #require(TerminalQRCode(output), "\(output)")
            let decoded = try code.decoded()
            #expect(decoded == text)
            let anna = scene.network.anna
            let quick = try StockWgQuick(decoded, program, in: anna)
            try quick.run("up")
            #expect(try anna.run("ip", "route", "get", GatewayProgramScene.server).output.contains("dev \(quick.name)"))
            #expect(try CulvertUpScene.resolvConfNow.contains("nameserver 203.0.113.53\n"))
            try expectTunnel(scene)
            try expectRevocable(scene)
            try quick.run("down")
            #expect(try anna.run("ip", "route", "get", GatewayProgramScene.server).output.contains("dev eth0"))
            try scene.stop()
        }

        @Test("An invitation's QR code is the invitation: read by zbar and given to standard input, it enrols")
        func invitation() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            let file = scene.files.path + "/anna.invitation"
            let output = try scene.culvert("gateway", "invite", "anna", "--output", file, "--qr")
            let decoded = try #require(TerminalQRCode(output), "\(output)").decoded()
            #expect(decoded + "\n" == (try String(contentsOfFile: file, encoding: .utf8)))
            let scanned = try scene.files.write(decoded, to: "scanned")
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            let enrolled = try anna.run(
                "sh", "-ec", "\(CulvertUpScene.program) enroll - --name office < \(scanned)", deadline: .seconds(120))
            #expect(enrolled.output.contains(" of anna: device "), "\(enrolled)")
            try scene.stop()
        }
    }

    /// wg-quick(8) with a userspace daemon. If the kernel supports WireGuard, wg-quick must use a replaced ip(8) that
    /// creates no WireGuard interfaces, in the mount namespace of `ip netns exec`.
    private final class StockWgQuick {
        let name = UniqueInterface.next()
        private let program: DaemonProgram
        private let namespace: Namespace
        private let folder: TemporaryFolder

        init(_ text: String, _ program: DaemonProgram, in namespace: Namespace) throws {
            (self.program, self.namespace) = (program, namespace)
            folder = try TemporaryFolder()
            _ = try folder.write(text, to: "\(name).conf")
            try PlacedProgram.write(
                """
                #!/bin/sh
                case "$*" in *"type wireguard"*) echo "Error: Unknown device type." >&2; exit 2 ;; esac
                exec \(folder.path)/ip "$@"
                """, to: "\(folder.path)/ip-without-wireguard")
        }

        deinit {
            for process in DaemonRemains.processes(of: program.rawValue, with: name) { kill(process, SIGKILL) }
            unsafe _ = unlink(ManagementClient.path(name))
        }

        func run(_ verb: String) throws {
            try namespace.run(
                "sh", "-ec",
                """
                real=$(readlink -f "$(command -v ip)")
                cp "$real" \(folder.path)/ip
                mount --bind \(folder.path)/ip-without-wireguard "$real"
                mount -t tmpfs none /sys/module
                WG_QUICK_USERSPACE_IMPLEMENTATION=\(program.path) exec wg-quick \(verb) \(folder.path)/\(name).conf
                """, deadline: .seconds(60))
        }
    }
#endif
