// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Faults of the system", .timeLimit(.minutes(5)))
        struct FaultTests {
            /// A regression test: the commands hung for minutes, and then reported that the process had ended.
            @Test("up and down report a tunnel whose process is stopped, and the tunnel continues with its process")
            func stoppedProcess() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                try scene.succeed("up", file)
                let process = try #require(scene.processes.first)
                kill(process, SIGSTOP)
                defer { kill(process, SIGCONT) }
                for arguments in [["up", file], ["down", scene.name]] {
                    let result = try PrivilegedTests.runAllowingFailure(
                        scene.command(arguments), deadline: .seconds(60))
                    #expect(result.status == 1, "\(result)")
                    #expect(result.output.contains("\(process), is stopped and does not answer"), "\(result)")
                }
                kill(process, SIGCONT)
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("down ends a tunnel whose control socket was deleted, or its whole folder", arguments: [false, true])
            func deletedSocket(_ isFolder: Bool) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let process = try #require(scene.processes.first)
                let path = scene.runtime.path + (isFolder ? "" : "/\(scene.name).sock")
                try FileManager.default.removeItem(atPath: path)
                try scene.ping()
                let down = try scene.run("down", scene.name)
                #expect(down.status == 0 && down.output.contains("process \(process) was ended by a signal"), "\(down)")
                #expect(scene.processes.isEmpty)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("A log that is truncated while the tunnel is up continues, and the tunnel with it")
            func truncatedLog() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let process = try #require(scene.processes.first)
                try PrivilegedTests.run(["truncate", "-s", "0", "\(scene.runtime.path)/\(scene.name).log"])
                #expect(try scene.succeed("log", scene.name).isEmpty)
                // A reload is logged.
                try scene.succeed("reload", scene.name)
                #expect(try scene.succeed("log", scene.name).contains("again"))
                #expect(scene.processes == [process])
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A PostUp that deletes the interface fails the start, and everything is undone")
            func deletedInterface() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile(interface: "PostUp = ip link delete %i")
                let up = try scene.run("up", file)
                #expect(up.status == 1 && up.output.contains("PostUp has deleted the interface"), "\(up)")
                try eventually("its process has ended") { scene.processes.isEmpty }
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            /// The number of peers: 20,000 in `make soak`. Messages were once limited to 1 MiB, and the start of such a
            /// tunnel needs more.
            private static let peerCount =
                ProcessInfo.processInfo.environment["CULVERT_PEERS"].flatMap { Int($0) } ?? 4_000

            @Test("A tunnel with thousands of peers is brought up, shown, reloaded and taken down")
            func manyPeers() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile(interface: "Table = off", allowedIPs: "10.77.0.0/24")
                var text = try String(contentsOfFile: file, encoding: .utf8)
                for number in 1..<Self.peerCount {
                    var key = [UInt8](repeating: 9, count: 32)
                    (key[0], key[1]) = (UInt8(number >> 8), UInt8(number & 0xff))
                    text +=
                        "[Peer]\nPublicKey = \(Data(key).base64EncodedString())\n"
                        + "AllowedIPs = 10.\(100 + number >> 16).\(number >> 8 & 0xff).\(number & 0xff)/32\n"
                        + "Endpoint = 198.51.100.\(number & 0x7f):\(1024 + number)\n"
                }
                try text.write(toFile: file, atomically: true, encoding: .utf8)
                try scene.succeed("up", file, "--memory", "gateway:\(Self.peerCount)")
                #expect(try (scene.status()["peers"] as? [Any])?.count == Self.peerCount)
                try scene.world.host.run("ping", "-n", "-q", "-c", "1", "-W", "9", CulvertUpScene.gateway4)
                try scene.succeed("reload", scene.name)
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("up refuses a named pipe as its file and does not wait for it")
            func namedPipe() throws {
                let scene = try CulvertUpScene()
                let path = scene.files.path + "/\(scene.name).conf"
                try PrivilegedTests.run(["mkfifo", path])
                for options in [[], ["--foreground"]] {
                    let up = try PrivilegedTests.runAllowingFailure(
                        scene.command(["up", path] + options), deadline: .seconds(30))
                    #expect(up.status == 2 && up.output.contains("not a regular file"), "\(up)")
                }
            }
        }
    }
#endif
