// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("The C interface on a TUN device")
        struct CTunnelTests {
            @Test(
                "A C program reaches wireguard-go: pings, a stream, its status, and nothing left when it is interrupted"
            )
            func wireguardGo() throws {
                let pair = try TunnelPair(.wireguardGo, .wireguardGo)
                let (program, server) = (pair.left, pair.right)
                try program.daemon.stop()
                let file = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-c-\(getpid()).conf")
                let text = Data(pair.configuration(of: program).utf8)
                try #require(
                    FileManager.default.createFile(
                        atPath: file.path, contents: text, attributes: [.posixPermissions: 0o600]))
                defer { try? FileManager.default.removeItem(at: file) }
                let name = UniqueInterface.next()
                let process = try program.namespace.start(Self.path, name, file.path)
                try process.waitForOutput(containing: "running")
                try program.shell(
                    "ip address add \(program.inner4)/24 dev \(name)\nip link set \(name) mtu 1420 up")
                try program.shell("ping -c 100 -i 0.01 -W 10 \(server.inner4)")
                let listener = try server.namespace.start("iperf3", "-s", "-1", "-B", server.inner4, "--forceflush")
                try listener.waitForOutput(containing: "listening")
                try program.shell("iperf3 -c \(server.inner4) -n 100M")
                let peer = try Wg.peer(program.keys.publicKey, of: server.name)
                #expect(peer.received > 100 << 20)
                process.signal(SIGTERM)
                let result = try process.wait()
                #expect(result.status == 0)
                #expect(result.output.contains("ended: 1"))
                #expect(try program.shell("ip -o link show").contains(name) == false)
            }

            @Test("A C program whose interface is deleted ends and says why", arguments: CLibrary.allCases)
            func interfaceDeleted(library: CLibrary) throws {
                let namespace = try Namespace()
                let folder = try TemporaryFolder()
                let program = try library.link("Examples/CTunnel/main.c", in: folder)
                let file = try folder.write("[Interface]\nPrivateKey = \(StaticKeys().text)\n", to: "tunnel.conf")
                let name = UniqueInterface.next()
                let process = try namespace.start(program, name, file)
                try process.waitForOutput(containing: "running")
                try namespace.run("ip", "link", "delete", name)
                let result = try process.wait()
                #expect(result.output.contains("ended: 2"))
            }

            /// The example built with this test bundle.
            private static let path: String = {
                let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
                let candidates = [bundle, CommandLine.arguments.first ?? ""].map {
                    URL(fileURLWithPath: $0).deletingLastPathComponent().appendingPathComponent("culvert-c-example")
                        .path
                }
                return candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? "culvert-c-example"
            }()
        }
    }
#endif
