// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension LinuxHostTests {
        @Suite("The echo tunnel on Linux", .timeLimit(.minutes(5)))
        struct EchoTunnelProgramTests {
            @Test(
                "The example's program answers the system's pings, and leaves nothing after a signal",
                arguments: [[], ["--descriptor"]])
            func answers(_ options: [String]) throws {
                let namespace = try Namespace()
                try namespace.run("ip", "link", "set", "lo", "up")
                let name = UniqueInterface.next()
                let process = try SpawnedProcess(["ip", "netns", "exec", namespace.name, Self.path, name] + options)
                try process.waitForOutput(containing: "tunnel connected")
                try namespace.run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", "10.77.0.1")
                process.signal(SIGTERM)
                #expect(try process.wait().status == 0)
                #expect(try namespace.run("ip", "-o", "link", "show").output.contains(name) == false)
            }

            @Test("A name that no interface can have is an error on standard error, with status 1")
            func badName() throws {
                let process = try SpawnedProcess([Self.path, "a/b"])
                let result = try process.wait()
                #expect(result.status == 1)
                #expect(result.output.contains("error: "))
            }

            /// The program built with this test bundle.
            private static let path: String = {
                let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
                let candidates = [bundle, CommandLine.arguments.first ?? ""].map {
                    URL(fileURLWithPath: $0).deletingLastPathComponent().appendingPathComponent("echo-tunnel-example")
                        .path
                }
                return candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? "echo-tunnel-example"
            }()
        }
    }
#endif
