// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    @Suite(
        "A gateway whose disk is full", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(3)))
    struct GatewayFullDiskTests {
        private static let folder = GatewayProgramScene.directory

        /// Moves the gateway's folder to a separate small file system.
        private func moveToSmallDisk(_ scene: GatewayProgramScene) throws -> String {
            let disk = "\(scene.files.path)/disk"
            try PrivilegedTests.run(["mkdir", disk])
            try PrivilegedTests.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700,uid=4711,gid=4711", "tmpfs", disk])
            try PrivilegedTests.run(["cp", "-a", "\(Self.folder)/.", disk])
            try PrivilegedTests.run(["mount", "--bind", disk, Self.folder])
            return disk
        }

        private func removeSmallDisk(_ disk: String) {
            for path in [Self.folder, disk] { _ = try? PrivilegedTests.run(["umount", path]) }
        }

        /// The ids of the devices by their kind.
        private func devices(_ scene: GatewayProgramScene) throws -> [String: String] {
            struct List: Decodable {
                struct Device: Decodable { var id: String, kind: String }
                var devices: [Device]
            }
            let text = try scene.culvert("gateway", "peer", "list", "--json")
            let list = try JSONDecoder().decode(List.self, from: Data(text.utf8))
            return Dictionary(list.devices.map { ($0.kind, $0.id) }) { first, _ in first }
        }

        @Test(
            "A revoked device is out within a second, an expired one within five, and both are saved once there is room"
        )
        func fullDisk() async throws {
            let scene = try GatewayProgramScene()
            let disk = try moveToSmallDisk(scene)
            defer { removeSmallDisk(disk) }
            try scene.run()
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.enrolOffice(of: "anna", in: anna)
            try scene.culvert("up", "office", in: anna)
            #expect(try scene.pings(GatewayProgramScene.inner, from: anna, patience: 9))
            try scene.culvert(
                "gateway", "peer", "add", "phone", "--user", "anna", "--export", "\(scene.files.path)/phone.conf")
            let devices = try devices(scene)
            let (office, phone) = (try #require(devices["enrolled"]), try #require(devices["exported"]))
            try eventually("both are peers") { try scene.metrics().contains("\nculvert_gateway_peers 2\n") }
            try scene.culvert("gateway", "peer", "set", phone, "--expires-in", "4s")
            let set = ContinuousClock.now
            _ = try PrivilegedTests.runAllowingFailure(["sh", "-c", "cat /dev/zero > \(disk)/fill"])

            var answer: CommandResult?
            let revoked = try await scene.network.cutOff(anna) {
                answer = try scene.attempt("gateway", "peer", "revoke", office)
            }
            #expect(revoked < .seconds(1))
            #expect(answer?.status == 0 && answer?.output.contains("not saved yet") == true, "\(answer as Any)")
            try eventually("the other has expired", within: .seconds(15)) {
                try scene.metrics().contains("\nculvert_gateway_peers 0\n")
            }
            print(
                "full disk: the last datagram passed \(revoked) after the device was revoked; the other was out "
                    + "\(ContinuousClock.now - set) after its expiry had been set to 4 s"
            )
            #expect(try !scene.pings(GatewayProgramScene.inner, from: anna))
            let ready = try scene.get("/ready")
            #expect(ready.contains(#""status":"ok""#) && ready.contains("the database refuses writes"), "\(ready)")
            #expect(ready.contains("device \(office) is revoked"), "\(ready)")
            #expect(try scene.metrics().contains("\nculvert_gateway_unsaved_ends 1\n"))

            try PrivilegedTests.run(["rm", "\(disk)/fill"])
            try eventually("all is saved", within: .seconds(15)) { try scene.get("/ready") == #"{"status":"ok"}"# }
            #expect(try scene.attempt("gateway", "peer", "show", office).status == 3)
            // Errors occur every second, but are logged once.
            let errors = scene.log.split(separator: "\n").count { $0.contains("disk is full") }
            #expect((1...10).contains(errors), "\(scene.log)")
            try scene.stop()
            try scene.run()
            #expect(try scene.metrics().contains("\nculvert_gateway_peers 0\n"))
            try scene.stop()
        }
    }
#endif
