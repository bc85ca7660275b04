// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Life and end", .timeLimit(.minutes(5)))
        struct DaemonLifecycleTests {
            /// The events that end a daemon.
            enum End: CaseIterable, Sendable {
                case interrupt, termination, linkDeletion, socketRemoval, socketReplacement

                func bring(_ name: String, _ process: pid_t, in namespace: Namespace) throws {
                    let path = ManagementClient.path(name)
                    switch self {
                    case .interrupt: kill(process, SIGINT)
                    case .termination: kill(process, SIGTERM)
                    case .linkDeletion: try namespace.run("ip", "link", "delete", "dev", name)
                    case .socketRemoval: try FileManager.default.removeItem(atPath: path)
                    case .socketReplacement: try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
                    }
                }
            }

            @Test("Ends with a session open and traffic under way, and leaves nothing", arguments: End.allCases)
            func ends(_ end: End) throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                try pair.ping(from: pair.left)
                let daemon = pair.left.daemon
                let traffic = try pair.right.namespace.start("ping", "-n", "-q", "-i", "0.002", pair.left.inner4)
                // A client that is connected and silent must not prevent the end of the daemon.
                let client = try ManagementClient(ManagementClient.path(daemon.name))
                try end.bring(daemon.name, daemon.process.processID, in: daemon.namespace)
                let result = try daemon.waitUntilEnded()
                #expect(result.status == 0, "\(result)")
                #expect(try client.isAtEnd())
                #expect(try DaemonRemains.of(daemon.name, in: daemon.namespace) == [])
                #expect(try daemon.namespace.run("ss", "-Hlun").output == "")
                #expect(!DaemonRemains.processes(of: "ping", with: pair.left.inner4).isEmpty, "traffic to the end")
                traffic.kill()
                try? FileManager.default.removeItem(atPath: ManagementClient.path(daemon.name) + ".old")
            }

            @Test("The same holds in the background", arguments: End.allCases)
            func endsInBackground(_ end: End) throws {
                let namespace = try Namespace()
                let daemon = try BackgroundDaemon(in: namespace)
                try #require(daemon.start.status == 0, "\(daemon.start)")
                let process = try #require(daemon.processes.first)
                try namespace.run("ip", "link", "set", daemon.name, "up")
                try end.bring(daemon.name, process, in: namespace)
                try eventually("the process has ended") { daemon.processes.isEmpty }
                #expect(try DaemonRemains.of(daemon.name, in: namespace) == [])
                try? FileManager.default.removeItem(atPath: ManagementClient.path(daemon.name) + ".old")
            }

            @Test(
                "A daemon whose namespace is deleted ends, even without permission to follow its interface there",
                arguments: [true, false])
            func namespaceDeletion(_ mayFollow: Bool) throws {
                let birth = try Namespace()
                let home = try Namespace()
                let wrapper = mayFollow ? [] : ["setpriv", "--bounding-set=-net_broadcast"]
                let daemon = try DaemonProcess(.culvert, in: birth, wrapper: wrapper)
                try birth.run("ip", "link", "set", daemon.name, "netns", home.name)
                home.delete()
                #expect(try daemon.waitUntilEnded().status == 0)
                #expect(try DaemonRemains.of(daemon.name, in: birth) == [])
            }

            @Test("A daemon goes up and down fifty times, renamed, with a session each time")
            func upAndDown() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (left, right) = (pair.left, pair.right)
                func descriptors() throws -> [String] {
                    let folder = "/proc/\(left.daemon.process.processID)/fd"
                    return try FileManager.default.contentsOfDirectory(atPath: folder)
                }
                try pair.ping(from: left)
                let before = try descriptors().count
                for _ in 0..<50 {
                    try left.shell("ip link set \(left.name) down; ip link set \(left.name) up")
                }
                try pair.pingForAWhile(from: left)
                #expect(try descriptors().count == before)
                #expect(try left.namespace.run("ss", "-Hlun").output.split(separator: "\n").count == 2)
                try left.shell(
                    "ip link set \(left.name) down; ip link set \(left.name) name renamed; ip link set renamed up")
                try left.shell("ip address replace \(left.inner4)/24 dev renamed")
                try pair.ping(from: left)
                try left.shell("ip link delete renamed")
                #expect(try left.daemon.waitUntilEnded().status == 0)
                #expect(try right.peer(left).latestHandshake > 0)
            }

            @Test("A second daemon of the same name is refused, and the first continues", arguments: [true, false])
            func secondDaemon(_ isInSameNamespace: Bool) throws {
                let namespace = try Namespace()
                let other = isInSameNamespace ? namespace : try Namespace()
                let first = try DaemonProcess(.culvert, in: namespace)
                for option in [["-f"], []] {
                    let result = try PrivilegedTests.runAllowingFailure(
                        ["ip", "netns", "exec", other.name, DaemonProgram.culvert.path] + option + [first.name])
                    #expect(result.status == 1)
                    #expect(result.output.hasPrefix("culvert-wg: \(first.name): "))
                    #expect(
                        result.output.contains(isInSameNamespace ? "busy" : "another process answers"),
                        "\(result.output)")
                    if !isInSameNamespace { #expect(try !DaemonRemains.hasInterface(first.name, in: other)) }
                }
                #expect(first.process.isRunning)
                #expect(try Wg.dump(first.name).peers == [])
                try first.stop()
                #expect(try DaemonRemains.of(first.name, in: namespace, other) == [])
            }

            @Test("A socket without a listener is replaced")
            func staleSocket() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let path = ManagementClient.path(name)
                try FileManager.default.createDirectory(atPath: "/var/run/wireguard", withIntermediateDirectories: true)
                close(try ManagementClient.listen(at: path))
                defer { try? FileManager.default.removeItem(atPath: path) }
                let daemon = try DaemonProcess(.culvert, name: name, in: namespace)
                #expect(try Wg.dump(name).listenPort == 0)
                try daemon.stop()
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            @Test("A file that is not a socket is not removed, and the status is 1")
            func foreignFile() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let path = ManagementClient.path(name)
                try FileManager.default.createDirectory(atPath: "/var/run/wireguard", withIntermediateDirectories: true)
                #expect(FileManager.default.createFile(atPath: path, contents: nil))
                defer { try? FileManager.default.removeItem(atPath: path) }
                let result = try namespace.runAllowingFailure(DaemonProgram.culvert.path, name)
                #expect(result.status == 1)
                #expect(result.output.contains("there is a file that is not a socket; remove it"), "\(result.output)")
                #expect(FileManager.default.fileExists(atPath: path))
            }

            @Test("After a crash the same name works again")
            func crash() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let first = try DaemonProcess(.culvert, name: name, in: namespace)
                try first.stop(SIGKILL)
                #expect(
                    FileManager.default.fileExists(atPath: ManagementClient.path(name)), "a crash cleans nothing up")
                let second = try DaemonProcess(.culvert, name: name, in: namespace)
                #expect(try Wg.dump(name).peers == [])
                #expect(try second.stop().status == 0)
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            @Test(
                "If the port is in use when the interface comes up, another works, and so does the first once it is free"
            )
            func portTakenOnTheWayUp() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let left = pair.left
                try left.shell("ip link set \(left.name) down")
                try Wg.run("set", left.name, "listen-port", "7777")
                var taker: TestSocket? = try TestSocket.datagrams(in: left.namespace, at: "0.0.0.0", port: 7777)
                try left.shell("ip link set \(left.name) up")
                try left.daemon.process.waitForOutput(containing: "cannot come up")
                #expect(try !pair.isReached(from: left))
                try Wg.run("set", left.name, "listen-port", "7778")
                try pair.ping(from: left)
                #expect(try pair.right.peer(left).endpoint.hasSuffix(":7778"))
                #expect(taker?.port == 7777)
                taker = nil
                try Wg.run("set", left.name, "listen-port", "7777")
                try pair.ping(from: left)
                #expect(try pair.right.peer(left).endpoint.hasSuffix(":7777"))
            }

            @Test("Without a daemon, wg reports the missing interface")
            func missingInterface() throws {
                let name = UniqueInterface.next()
                let shown = try Wg.attempt("show", name)
                #expect(shown.status == 1)
                #expect(shown.output.hasPrefix("Unable to access interface: "), "\(shown.output)")
                let set = try Wg.attempt("set", name, "listen-port", "1")
                #expect(set.status == 1)
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, name: name, in: namespace)
                #expect(try Wg.run("show", "interfaces").split(whereSeparator: \.isWhitespace).contains { $0 == name })
                try daemon.stop()
                #expect(try Wg.attempt("show", name).output == shown.output)
                #expect(try !Wg.run("show", "interfaces").split(whereSeparator: \.isWhitespace).contains { $0 == name })
            }
        }
    }
#endif
