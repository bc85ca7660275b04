// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    extension DaemonTests {
        /// Requests that wg(8) never sends, but other clients may.
        @Suite("Management socket of a daemon", .timeLimit(.minutes(5)))
        struct WgToolSocketTests {
            private let daemon: DaemonProcess
            private let peer = StaticKeys().publicKey.hex

            init() throws {
                daemon = try DaemonProcess(.culvert, in: try Namespace())
            }

            private func connect() throws -> ManagementClient {
                try ManagementClient(ManagementClient.path(daemon.name))
            }

            @Test("Operations that come in one piece are answered in order")
            func pipelined() throws {
                let client = try connect()
                try client.write("get=1\n\nset=1\nlisten_port=1000\n\nget=1\n\nset=1\nfwmark=x\n\nget=1\n\n")
                #expect(try client.readReply() == "errno=0\n\n")
                #expect(try client.readReply() == "errno=0\n\n")
                #expect(try client.readReply() == "listen_port=1000\nerrno=0\n\n")
                #expect(try client.readReply() == "errno=-22\n\n")
                #expect(try client.readReply() == "listen_port=1000\nerrno=0\n\n")
            }

            @Test("Operations that arrive byte by byte are answered")
            func byteByByte() throws {
                let client = try connect()
                let request =
                    "set=1\nfwmark=3\nreplace_peers=true\npublic_key=\(peer)\nallowed_ip=10.0.0.0/8\n\nget=1\n\n"
                for byte in request { try client.write(String(byte)) }
                #expect(try client.readReply() == "errno=0\n\n")
                let reply = try client.readReply()
                #expect(reply.hasPrefix("fwmark=3\npublic_key=\(peer)\n"))
                #expect(reply.hasSuffix("allowed_ip=10.0.0.0/8\nerrno=0\n\n"))
            }

            @Test("After an error in the middle the rest of that operation is skipped, and the next one is answered")
            func errorInTheMiddle() throws {
                let client = try connect()
                #expect(try client.ask("set=1\nfwmark=5\npublic_key=nonsense\nlisten_port=7\n\n") == "errno=-22\n\n")
                #expect(try client.ask("get=1\n\n") == "errno=0\n\n", "nothing of it was done")
                #expect(try client.ask("set=1\nfwmark=6\n\n") == "errno=0\n\n")
                #expect(try client.ask("get=1\n\n") == "fwmark=6\nerrno=0\n\n")
            }

            @Test("A line without end is refused, and costs no memory")
            func longLine() throws {
                let client = try connect()
                let before = try anonymousKilobytes()
                let long = String(repeating: "a", count: 1 << 20)
                try client.write("set=1\nlisten_port=1\nprivate_key=")
                for _ in 0..<16 { try client.write(long) }
                try client.write("\nfwmark=1\n\n")
                let reply = try client.readReply()
                #expect(reply.hasPrefix("errno=-"), "\(reply)")
                #expect(try client.ask("get=1\n\n") == "errno=0\n\n")
                #expect(try anonymousKilobytes() < before + 4096)
            }

            /// Only anonymous memory is counted, because pages of the program's file may be read from the disk at any
            /// time.
            private func anonymousKilobytes() throws -> Int {
                let text = try #require(DaemonRemains.status("RssAnon", of: daemon.process.processID))
                return try #require(Int(text.split(separator: " ")[0]))
            }

            @Test("The end of the input counts as the blank line")
            func endOfInput() throws {
                let client = try connect()
                try client.write("set=1\nlisten_port=1234\n")
                client.finish()
                #expect(try client.readReply() == "errno=0\n\n")
                #expect(try client.isAtEnd())
                #expect(try Wg.dump(daemon.name).listenPort == 1234)
            }

            @Test("Bytes that are not an operation end the connection, and no other")
            func unknownOperation() throws {
                let other = try connect()
                let client = try connect()
                try client.write("list=1\n\n")
                #expect(try client.isAtEnd())
                #expect(try other.ask("get=1\n\n") == "errno=0\n\n")
            }

            @Test("Many clients are served while most are silent or do not read")
            func manyClients() throws {
                try Wg.configure(
                    daemon.name,
                    "[Interface]\n[Peer]\nPublicKey = \(StaticKeys().publicKey.base64)\nAllowedIPs = "
                        + (0..<8000).map { "10.\($0 >> 8).\($0 & 255).0/24" }.joined(separator: ", "))
                let silent = try (0..<20).map { _ in try connect() }
                let deaf = try (0..<20).map { _ in try connect() }
                for client in deaf { try client.write("get=1\n\nget=1\n\nget=1\n\n") }
                let client = try connect()
                #expect(try client.ask("get=1\n\n").hasSuffix("errno=0\n\n"))
                #expect(try Wg.dump(daemon.name).peers[0].allowedIPs.count == 8000)
                // The clients that read at the end get everything.
                for client in deaf {
                    for _ in 0..<3 { #expect(try client.readReply().hasSuffix("errno=0\n\n")) }
                }
                #expect(try silent[0].ask("get=1\n\n").hasSuffix("errno=0\n\n"))
            }

            @Test("A malformed update is refused as a whole")
            func malformed() throws {
                let keys = StaticKeys()
                let client = try connect()
                // The numbers must be negative, because wg(8) negates them before it looks up the error text.
                for lines in [
                    "listen_port=65536", "private_key=00", "nonsense=1", "fwmark=-1", "replace_peers=false",
                    "public_key=\(peer)\nprotocol_version=2", "public_key=\(peer)\nallowed_ip=10.0.0.0/33",
                    "public_key=\(peer)\nendpoint=host:1", "public_key=\(peer)\nremove=1",
                ] {
                    let reply = try client.ask("set=1\n\(lines)\n\n")
                    #expect(reply.hasPrefix("errno=-"), "\(lines): \(reply)")
                    #expect(try client.ask("get=1\n\n") == "errno=0\n\n", "nothing of it was done")
                }
                #expect(try client.ask("set=1\nprivate_key=\(keys.privateKey.exportedHex)\n\n") == "errno=0\n\n")
            }
        }
    }
#endif
