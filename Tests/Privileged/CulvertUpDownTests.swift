// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        /// `culvert down` with faults of the runtime folder, and with a held policy.
        @Suite("Down", .timeLimit(.minutes(5)))
        struct DownTests {
            @Test(
                "`down` ends within the time of one wait while another process keeps the lock, and names that process")
            func keptLock() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                let holder = try SpawnedProcess(["flock", "--no-fork", scene.runtime.path, "sleep", "200"])
                defer { holder.kill() }
                try eventually("the lock is held", within: .seconds(10)) {
                    try runAllowingFailure(["flock", "--nonblock", scene.runtime.path, "true"]).status == 1
                }
                let began = ContinuousClock.now
                let down = try scene.run("down", scene.name)
                let time = ContinuousClock.now - began
                #expect(time < .seconds(45), "\(time)")
                #expect(down.status == 1, "\(down)")
                let words = "process \(holder.processID) has kept locked for "
                #expect(down.output.contains(words) && down.output.contains("stays up"), "\(down)")
                let number = down.output.components(separatedBy: words).last?.split(separator: " ").first
                #expect(try #require(number.flatMap { Double($0) }) >= 30, "\(down)")
                // Nothing was undone.
                try scene.ping()
                holder.kill()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("`down` names a runtime folder that other users can write to, and succeeds after chmod")
            func writableFolder() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                try PrivilegedTests.run(["chmod", "0777", scene.runtime.path])
                let down = try scene.run("down", scene.name)
                #expect(down.status == 1, "\(down)")
                #expect(
                    down.output.contains(scene.runtime.path) && down.output.contains("chmod 0700"), "\(down)")
                try scene.ping()
                try PrivilegedTests.run(["chmod", "0700", scene.runtime.path])
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("`down` names the folder that a tunnel's runtime folder was moved to, and ends the tunnel there")
            func movedFolder() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                try scene.ping()
                let moved = scene.runtime.path + "-moved"
                try FileManager.default.moveItem(atPath: scene.runtime.path, toPath: moved)
                defer { try? FileManager.default.removeItem(atPath: moved) }
                let down = try scene.run("down", scene.name)
                #expect(down.status == 1, "\(down)")
                #expect(down.output.contains("--runtime-directory \(moved)"), "\(down)")
                try scene.ping()
                try scene.succeed("down", scene.name, "--runtime-directory", moved)
                #expect(scene.processes.isEmpty)
                let changes = try scene.world.changes(since: scene.before)
                #expect(changes.isEmpty, "\(changes)")
            }

            @Test(
                "`down` names a leak policy that stays, and `status` the stricter policy that was held while it was up")
            func heldPolicy() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                func policy() throws -> String? { try scene.status()["leakPolicy"] as? String }
                try scene.succeed("up", file, "--leak-policy", "route-based")
                #expect(try policy() == "route-based")
                try scene.succeed("guard", file, "--leak-policy", "everything")
                try eventually("the held policy is in effect", within: .seconds(5)) { try policy() == "everything" }
                let down = try scene.succeed("down", scene.name)
                #expect(
                    down.contains("the leak policy 'everything' is held")
                        && down.contains("guard \(scene.name) --release"),
                    "\(down)")
                try scene.succeed("up", file, "--leak-policy", "route-based")
                try scene.succeed("guard", file, "--release")
                // The policy stays until the tunnel ends.
                #expect(try policy() == "everything")
                #expect(try scene.succeed("status", scene.name).contains("everything"))
                #expect(try !scene.succeed("down", scene.name).contains("leak policy"))
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }
        }
    }
#endif
