// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        /// Two tunnels on one host.
        @Suite("Two tunnels", .timeLimit(.minutes(5)))
        struct PairTests {
            private static let far = "203.0.113.7"

            private func problems(_ scene: CulvertUpScene, of name: String) throws -> [String] {
                let problems = try scene.status(of: name)["problems"] as? [[String: Any]] ?? []
                return problems.compactMap { $0["what"] as? String }
            }

            @Test(
                "A second tunnel that would carry the packets of the first is refused immediately, and the first carries on",
                arguments: [
                    ("route-based", "route-based"), ("enforced", "enforced"), ("everything", "route-based"),
                    ("enforced", "everything"),
                ])
            func refused(_ firstPolicy: String, _ secondPolicy: String) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", firstPolicy)
                try scene.ping()
                let second = scene.name + "b"
                let file = try scene.writeFile(interface: "", name: second)
                let began = ContinuousClock.now
                let refused = try scene.run("up", file, "--leak-policy", secondPolicy)
                // A start whose server does not answer would take 30 seconds.
                #expect(ContinuousClock.now - began < .seconds(15))
                #expect(
                    refused.status == 2 && refused.output.contains("tunnel '\(scene.name)' is up")
                        && refused.output.contains("fix: run 'culvert down \(scene.name)' first"), "\(refused)")
                try scene.ping()
                #expect(try scene.status()["state"] as? String == "connected")
                #expect(try scene.run("status", second).status == 3)
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty, "\(scene.remains)")
            }

            @Test("A tunnel for everything and one for a more specific network carry their own packets")
            func split() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let second = scene.name + "b"
                let file = try scene.writeFile(interface: "", allowedIPs: "198.51.100.0/24", name: second)
                let up = try scene.run("up", file)
                #expect(up.status == 0 && !up.output.contains("warning"), "\(up)")
                #expect(try scene.way(to: "198.51.100.7") == second)
                #expect(try scene.way(to: Self.far) == scene.name)
                for name in [scene.name, second] { #expect(try problems(scene, of: name).isEmpty) }
                try scene.succeed("down", second)
                #expect(try scene.way(to: "198.51.100.7") == scene.name)
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test(
                "A route that two tunnels have stays with the first, with a warning, and goes to the second when the first ends"
            )
            func sharedRoute() throws {
                let scene = try CulvertUpScene()
                let shared = "203.0.113.0/24"
                try scene.succeed("up", try scene.writeFile(interface: "", allowedIPs: shared))
                let second = scene.name + "b"
                let file = try scene.writeFile(interface: "", allowedIPs: "\(shared), 198.51.100.0/24", name: second)
                let up = try scene.run("up", file)
                #expect(
                    up.status == 0
                        && up.output.contains("warning: tunnel '\(scene.name)' already has routes of this tunnel")
                        && up.output.contains(shared), "\(up)")
                func repairs() throws -> [Int?] {
                    try [scene.name, second].map { try scene.status(of: $0)["repairs"] as? Int }
                }
                try eventually("status shows the problem", within: .seconds(5)) {
                    try problems(scene, of: second).contains { $0.contains(scene.name) && $0.contains(shared) }
                }
                #expect(try problems(scene, of: scene.name).isEmpty)
                // Both tunnels compare the network with their plans after each change of a route.
                for _ in 0..<5 {
                    try scene.world.host.run("ip", "route", "add", "192.0.2.99", "dev", "eth0")
                    try scene.world.host.run("ip", "route", "delete", "192.0.2.99", "dev", "eth0")
                    #expect(try scene.way(to: Self.far) == scene.name && scene.way(to: "198.51.100.7") == second)
                }
                #expect(try repairs() == [0, 0])
                // A deleted route is restored by the tunnel that had it.
                try scene.world.host.run("ip", "route", "delete", shared)
                try eventually("the first has made it again", within: .seconds(2)) {
                    try scene.way(to: Self.far) == scene.name && repairs() == [1, 0]
                }
                try scene.succeed("down", scene.name)
                try eventually("the second has taken it", within: .seconds(2)) {
                    try scene.way(to: Self.far) == second && problems(scene, of: second).isEmpty
                }
                try scene.succeed("down", second)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty, "\(scene.remains)")
            }
        }
    }
#endif
