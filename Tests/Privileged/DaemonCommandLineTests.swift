// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import TunnelSystem
    import WireGuardCore

    @testable import TunnelIO

    extension DaemonTests {
        @Suite("Command line of culvert-wg", .timeLimit(.minutes(5)))
        struct DaemonCommandLineTests {
            private let program = DaemonProgram.culvert.path

            // MARK: - Words

            @Test(
                "The options --version and --help print the expected text",
                arguments: [["--version"], ["-v"], ["--help"], ["-h"], ["--help", "x"]])
            func words(_ arguments: [String]) throws {
                let result = try runAllowingFailure([program] + arguments)
                #expect(result.status == 0)
                #expect(result.output.hasPrefix("culvert-wg"))
                #expect(result.output.contains("usage:") == (arguments[0] != "--version" && arguments[0] != "-v"))
            }

            @Test(
                "Wrong usage ends with status 2 and the error",
                arguments: [
                    ([], "an interface name is missing"),
                    (["--nonsense"], "unknown option '--nonsense'"),
                    (["a", "b"], "more than one interface name"),
                    (["sixteen-letters-"], "'sixteen-letters-' is not an interface name"),
                    (["a/b"], "'a/b' is not an interface name"),
                    ([".."], "'..' is not an interface name"),
                    ([""], "'' is not an interface name"),
                ])
            func wrongUsage(_ arguments: [String], _ message: String) throws {
                let result = try runAllowingFailure([program] + arguments)
                #expect(result.status == 2)
                #expect(result.output.hasPrefix("culvert-wg: \(message)"), "\(result.output)")
                #expect(result.output.split(separator: "\n").count == 1)
            }

            @Test(
                "Wrong environment: status 2",
                arguments: [
                    ("WG_TUN_FD=x", "WG_TUN_FD is 'x'"), ("WG_UAPI_FD=-1", "WG_UAPI_FD is '-1'"),
                ])
            func wrongEnvironment(_ variable: String, _ message: String) throws {
                let result = try runAllowingFailure(["env", variable, program, UniqueInterface.next()])
                #expect(result.status == 2)
                #expect(result.output.contains(message), "\(result.output)")
            }

            // MARK: - Failures

            @Test("Without root: status 1 and what to do", arguments: [[], ["-f"]])
            func withoutRoot(_ option: [String]) throws {
                let namespace = try Namespace()
                let folder = try TemporaryFolder()
                // Other users can read this folder, wherever the build is.
                let copy = folder.path + "/culvert-wg"
                try run(["cp", program, copy])
                try run(["chmod", "755", folder.path, copy])
                let name = UniqueInterface.next()
                let result = try runAllowingFailure(
                    [
                        "ip", "netns", "exec", namespace.name, "setpriv", "--reuid=65534", "--regid=65534",
                        "--clear-groups", copy,
                    ] + option + [name])
                #expect(result.status == 1)
                #expect(result.output.hasPrefix("culvert-wg: \(name): "), "\(result.output)")
                #expect(result.output.contains("CAP_NET_ADMIN") || result.output.contains("root"), "\(result.output)")
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            @Test("Invalid descriptors end with status 1", arguments: ["WG_TUN_FD=77", "WG_TUN_FD=0", "WG_UAPI_FD=77"])
            func wrongDescriptors(_ variable: String) throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let result = try runAllowingFailure([
                    "ip", "netns", "exec", namespace.name, "env", variable, program, name,
                ])
                #expect(result.status == 1)
                #expect(result.output.hasPrefix("culvert-wg: \(name): "), "\(result.output)")
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            @Test("A background process that ends before it serves: status 1, and nothing is left")
            func childFails() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                // If the dynamic linker itself starts the program, the linker is the program's own file. It takes the
                // interface's name for a program, and ends.
                let linker = try #require(
                    ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].first {
                        FileManager.default.fileExists(atPath: $0)
                    })
                let result = try namespace.runAllowingFailure(linker, program, name)
                #expect(result.status == 1)
                #expect(result.output.contains("the background process ended"), "\(result.output)")
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            // MARK: - The background

            @Test("The command returns when interface and socket exist, and leaves a daemon in the background")
            func background() throws {
                let namespace = try Namespace()
                let daemon = try BackgroundDaemon(in: namespace)
                // The command has returned, so no further wait is needed.
                #expect(FileManager.default.fileExists(atPath: ManagementClient.path(daemon.name)))
                #expect(try ManagementClient(ManagementClient.path(daemon.name)).ask("get=1\n\n") == "errno=0\n\n")
                #expect(try DaemonRemains.hasInterface(daemon.name, in: namespace))
                #expect(daemon.start.status == 0)
                #expect(daemon.start.output == "")
                let process = try #require(daemon.processes.first)
                #expect(daemon.processes.count == 1)

                for descriptor in 0...2 {
                    let file = try FileManager.default.destinationOfSymbolicLink(
                        atPath: "/proc/\(process)/fd/\(descriptor)")
                    #expect(file == "/dev/null")
                }
                #expect(getsid(process) == process, "a session of its own")
                #expect(DaemonRemains.status("PPid", of: process) != "\(getpid())")
            }

            @Test("Keeps only the privileges that it needs", arguments: [true, false])
            func privileges(_ isForeground: Bool) throws {
                let namespace = try Namespace()
                let daemon = isForeground ? nil : try BackgroundDaemon(in: namespace)
                let foreground = isForeground ? try DaemonProcess(.culvert, in: namespace) : nil
                let process = try #require(foreground?.process.processID ?? daemon?.processes.first)
                // Once the daemon answers, everything has been started.
                let name = try #require(foreground?.name ?? daemon?.name)
                #expect(try ManagementClient(ManagementClient.path(name)).ask("get=1\n\n").hasSuffix("errno=0\n\n"))
                // CAP_NET_BIND_SERVICE, CAP_NET_BROADCAST, CAP_NET_ADMIN and CAP_SYS_ADMIN.
                let kept = String(1 << 10 | 1 << 11 | 1 << 12 | 1 << 21, radix: 16)
                for set in ["CapEff", "CapPrm"] {
                    let value = try #require(DaemonRemains.status(set, of: process))
                    #expect(value.drop { $0 == "0" } == kept, "\(set) \(value)")
                }
                #expect(DaemonRemains.status("CapInh", of: process)?.drop { $0 == "0" } == "")
                #expect(DaemonRemains.status("NoNewPrivs", of: process) == "1")
                // Each thread has its own capabilities.
                let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
                #expect(threads.count >= 3)
                for thread in threads {
                    let value = try #require(DaemonRemains.status("CapEff", of: pid_t(thread) ?? 0))
                    #expect(value.drop { $0 == "0" } == kept)
                }
            }

            @Test("Only its owner can open the management socket")
            func socketMode() throws {
                let namespace = try Namespace()
                // The umask of the daemon must not matter.
                let daemon = try DaemonProcess(
                    .culvert, in: namespace, environment: ["sh", "-c", "umask 0; exec \"$@\"", "sh"])
                let socket = try FileManager.default.attributesOfItem(atPath: ManagementClient.path(daemon.name))
                let mode = try #require(socket[.posixPermissions] as? NSNumber).intValue
                #expect(mode & 0o077 == 0, "\(String(mode, radix: 8))")
                #expect(socket[.type] as? FileAttributeType == .typeSocket)
                #expect(socket[.ownerAccountID] as? NSNumber == 0)
            }

            // MARK: - Logging

            @Test(
                "LOG_LEVEL",
                arguments: [
                    ("verbose", true), ("debug", true), ("error", false), ("silent", false), ("", false),
                    ("warn", false),
                ])
            func logLevel(_ level: String, _ isVerbose: Bool) throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let process = try namespace.start("env", "LOG_LEVEL=\(level)", program, "-f", name)
                try eventually("it serves") { ManagementClient.isAnswered(ManagementClient.path(name)) }
                try namespace.run("ip", "link", "set", name, "up")
                try eventually("it has seen that") { try namespace.run("ss", "-Hlun").output != "" }
                process.signal(SIGTERM)
                let result = try process.wait()
                #expect(result.status == 0)
                #expect(result.output.contains("(\(name)) interface up") == isVerbose, "\(result.output)")
                let warning =
                    "culvert-wg: LOG_LEVEL is 'warn' and must be verbose, debug, error or silent; using error\n"
                if !isVerbose { #expect(result.output == (level == "warn" ? warning : "")) }
            }

            @Test("A daemon in the background with a log level keeps its output", arguments: ["verbose", "silent"])
            func backgroundLog(_ level: String) throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let folder = try TemporaryFolder()
                let file = folder.path + "/log"
                try namespace.run("sh", "-c", "LOG_LEVEL=\(level) exec \(program) \(name) >\(file) 2>&1")
                try namespace.run("ip", "link", "delete", name)
                try eventually("the daemon has ended") {
                    DaemonRemains.processes(of: "culvert-wg", with: name).isEmpty
                }
                let log = try String(contentsOfFile: file, encoding: .utf8)
                #expect(log.isEmpty == (level == "silent"), "\(log)")
            }

            @Test("No key is ever logged")
            func noKeysInLog() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                try pair.ping(from: pair.left)
                let client = try ManagementClient(ManagementClient.path(pair.left.name))
                let key = pair.left.keys.privateKey.exportedHex
                #expect(try client.ask("set=1\nprivate_key=\(key)\nlisten_port=x\(key)\n\n") != "errno=0\n\n")
                let log = try pair.left.daemon.stop().output
                #expect(log.contains("interface up"))
                #expect(!log.contains(key))
                #expect(!log.contains(pair.left.keys.text))
            }

            // MARK: - Descriptors of a parent

            @Test(
                "A parent hands in the TUN device, the management socket, or both",
                arguments: [
                    (true, false), (false, true), (true, true),
                ])
            func descriptors(_ handsInTun: Bool, _ handsInSocket: Bool) throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let path = ManagementClient.path(name)
                try FileManager.default.createDirectory(atPath: "/var/run/wireguard", withIntermediateDirectories: true)
                var descriptors: [Int32: Int32] = [:]
                var variables = ["LOG_LEVEL=verbose"]
                defer { for descriptor in descriptors.values { close(descriptor) } }
                if handsInTun {
                    descriptors[7] = try namespace.perform {
                        try LinuxTun.open(name: name, framing: TunFraming(), kind: 1).release()
                    }
                    variables.append("WG_TUN_FD=7")
                }
                if handsInSocket {
                    descriptors[9] = try ManagementClient.listen(at: path)
                    variables.append("WG_UAPI_FD=9")
                }
                defer { unsafe _ = unlink(path) }
                let process = try SpawnedProcess(
                    ["ip", "netns", "exec", namespace.name, "env"] + variables + [program, "-f", name],
                    descriptors: descriptors)
                // From here on only the daemon has the descriptors.
                for descriptor in descriptors.values { close(descriptor) }
                descriptors = [:]
                try process.waitForOutput(containing: "interface MTU")
                try namespace.run("ip", "link", "set", name, "up")
                try Wg.run("set", name, "listen-port", "4242")
                #expect(try Wg.dump(name).listenPort == 4242)
                process.signal(SIGTERM)
                #expect(try process.wait().status == 0)
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }

            @Test("A parent's descriptors reach the background process, whatever their numbers")
            func descriptorsInBackground() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                let path = ManagementClient.path(name)
                try FileManager.default.createDirectory(atPath: "/var/run/wireguard", withIntermediateDirectories: true)
                let socket = try ManagementClient.listen(at: path)
                let tun = try namespace.perform {
                    try LinuxTun.open(name: name, framing: TunFraming(), kind: 1).release()
                }
                // Use numbers that differ from the requested ones. The background process has the descriptors in
                // swapped order.
                let high = [tun, socket].map { fcntl($0, F_DUPFD_CLOEXEC, 100) }
                defer {
                    for process in DaemonRemains.processes(of: "culvert-wg", with: name) { kill(process, SIGKILL) }
                    unsafe _ = unlink(path)
                }
                let process = try SpawnedProcess(
                    ["ip", "netns", "exec", namespace.name, "env", "WG_TUN_FD=4", "WG_UAPI_FD=3", program, name],
                    descriptors: [4: high[0], 3: high[1]])
                for descriptor in [socket, tun] + high { close(descriptor) }
                let result = try process.wait()
                #expect(result.status == 0, "\(result)")
                #expect(try ManagementClient(path).ask("get=1\n\n") == "errno=0\n\n")
                let daemon = try #require(DaemonRemains.processes(of: "culvert-wg", with: name).first)
                try namespace.run("ip", "link", "set", name, "up")
                try eventually("a port of the system's choice") { try Wg.dump(name).listenPort != 0 }
                kill(daemon, SIGTERM)
                try eventually("the daemon has ended") {
                    DaemonRemains.processes(of: "culvert-wg", with: name).isEmpty
                }
                #expect(try DaemonRemains.of(name, in: namespace) == [])
            }
        }
    }
#endif
