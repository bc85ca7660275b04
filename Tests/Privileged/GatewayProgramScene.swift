// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CompatibilityFixtures
    import Foundation
    import Testing

    /// The programs of docs/gateway.md at their installed paths: a gateway that `culvert gateway run` serves in a
    /// host's namespace as an unprivileged user, and devices beyond the host's router. It needs a sandbox with a
    /// separate /run.
    final class GatewayProgramScene {
        let network: GatewayTunnelScene
        let files: TemporaryFolder
        private let etc: PrivateEtc
        private var running: SpawnedProcess?
        /// The state of the host's network before there was a gateway.
        let before: [String]

        static let host = "192.0.2.2"
        static let inner = "10.66.0.1"
        /// The address of a distant server, behind NAT.
        static let server = "203.0.113.7"
        static let directory = "/etc/culvert/gateway"
        private static let driver = "/dev/net/tun"
        private static let runtime = "/run/culvert-gateway"

        /// - Parameters:
        ///   - options: Further options of `culvert gateway init`.
        ///   - fixture: A folder of the fixtures to serve instead of a new gateway.
        init(_ options: String..., fixture: String? = nil) throws {
            etc = try PrivateEtc(resolvConf: CulvertUpScene.resolvConf)
            // Add the user as useradd does.
            let users = try String(contentsOfFile: "/etc/passwd", encoding: .utf8)
            try (users + "culvert:x:4711:4711::/:/usr/sbin/nologin\n")
                .write(toFile: "/etc/passwd", atomically: false, encoding: .utf8)
            network = try GatewayTunnelScene()
            files = try TemporaryFolder()
            // Create the device file as udev does: every user can open it, but only a privileged user can create
            // interfaces.
            try PrivilegedTests.run(["mknod", "-m", "666", "\(files.path)/tun", "c", "10", "200"])
            try PrivilegedTests.run(["mount", "--bind", "\(files.path)/tun", Self.driver])
            before = try network.world.snapshot()
            if let fixture {
                try Fixtures.copy(fixture, to: Self.directory)
                try PrivilegedTests.run(["chown", "-R", "4711:4711", Self.directory])
                return
            }
            let made = try culvert(
                "gateway", "init", Self.host, "--owner", "culvert", "--backup-key", "\(files.path)/backup.key",
                "--address6", "fd66::1/64", "--dns", "203.0.113.53", more: options)
            #expect(made.contains("Devices reach it at \(Self.host)"), "\(made)")
        }

        deinit {
            running?.kill()
            _ = try? PrivilegedTests.run(["umount", Self.driver])
            for process in DaemonRemains.processes(of: "culvert", with: "--foreground") { kill(process, SIGKILL) }
            try? FileManager.default.removeItem(atPath: Self.runtime)
            try? FileManager.default.removeItem(atPath: "/run/culvert")
        }

        // MARK: - The programs

        private func command(_ arguments: [String], in namespace: Namespace?) -> [String] {
            ["ip", "netns", "exec", (namespace ?? network.world.host).name, CulvertUpScene.program] + arguments
        }

        /// Runs the program, which must succeed; returns its output.
        /// - Parameter namespace: The namespace; `nil` for the gateway's host.
        @discardableResult
        func culvert(
            _ arguments: String..., more: [String] = [], in namespace: Namespace? = nil
        ) throws -> String {
            try PrivilegedTests.run(command(arguments + more, in: namespace), deadline: .seconds(120)).output
        }

        /// Runs the program and accepts any status.
        func attempt(_ arguments: String..., in namespace: Namespace? = nil) throws -> CommandResult {
            try PrivilegedTests.runAllowingFailure(command(arguments, in: namespace), deadline: .seconds(120))
        }

        /// Starts the program as the leader of a session with this terminal.
        func start(_ arguments: String..., on terminal: PseudoTerminal) throws -> SpawnedProcess {
            try SpawnedProcess(
                ["setsid", "--ctty", "--wait"] + command(arguments, in: nil), descriptors: [0: terminal.slave])
        }

        // MARK: - The gateway

        /// Starts `culvert gateway run`, and waits until it serves.
        /// - Parameters:
        ///   - descriptors: The limit of its descriptors; `nil` for the system's limit.
        ///   - whileStarting: Called once the process exists.
        func run(descriptors: Int? = nil, whileStarting: () throws -> Void = {}) throws {
            let limit = descriptors.map { ["prlimit", "--nofile=\($0):\($0)"] } ?? []
            let process = try SpawnedProcess(limit + command(["gateway", "run"], in: nil))
            running = process
            try whileStarting()
            try process.waitForOutput(containing: "serving \(Self.host)", deadline: .seconds(60))
        }

        /// The gateway's log since its start.
        var log: String { running?.outputSoFar ?? "" }

        /// Ends the gateway as systemd does.
        func stop() throws {
            let process = try #require(running)
            process.signal(SIGTERM)
            let result = try process.wait(deadline: .seconds(60))
            #expect(result.status == 0, "\(result)")
            running = nil
        }

        /// Ends the gateway as the system does when memory runs out.
        func crash() {
            running?.kill()
            running = nil
        }

        /// A line of `/proc/PID/status` of the gateway.
        func status(_ key: String) throws -> String? { DaemonRemains.status(key, of: try #require(running).processID) }

        /// Whether the gateway has an open descriptor of a file or folder.
        func hasOpened(_ path: String) throws -> Bool {
            DaemonRemains.hasOpened(path, try #require(running).processID)
        }

        /// The threads of the gateway that could receive SIGTERM, other than the first one, which waits for it. In any
        /// other thread SIGTERM would end the process without undoing anything.
        func threadsThatTakeSignals() throws -> [String] {
            let process = try #require(running).processID
            let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
            return threads.filter { $0 != "\(process)" }.filter { thread in
                let text = DaemonRemains.status("SigBlk", of: process, thread: thread)
                let blocked: UInt64 = text.flatMap { UInt64($0, radix: 16) } ?? .max
                let terminate: UInt64 = 1 << (UInt64(SIGTERM) - 1)
                return blocked & terminate == 0
            }
        }

        /// The metrics, read through the socket.
        func metrics() throws -> String { try get("/metrics", from: "-U \(Self.runtime)/admin.sock") }

        /// The body of a reply of the administrators' API.
        /// - Parameter place: The listener, as arguments of ncat.
        func get(_ path: String, from place: String = "127.0.0.1 8080") throws -> String {
            let reply = try network.world.host.run(
                "sh", "-ec",
                "printf 'GET \(path) HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | ncat \(place)"
            )
            guard let head = reply.output.range(of: "\r\n\r\n") else { throw CommandFailure(description: "\(reply)") }
            return String(reply.output[head.upperBound...])
        }

        // MARK: - Devices

        /// Whether a ping is answered. Repeats it for some seconds.
        func pings(_ address: String, from namespace: Namespace, patience: Int = 1) throws -> Bool {
            for _ in 0..<patience {
                if try namespace.runAllowingFailure("ping", "-n", "-q", "-c", "1", "-W", "1", address).status == 0 {
                    return true
                }
            }
            return false
        }

        /// The IPv4 source address that a distant server sees for a device's datagrams.
        func seenSource(of device: Namespace) throws -> String {
            let server = try TestSocket.datagrams(in: network.world.router, at: Self.server, port: 7100)
            let socket = try TestSocket.datagrams(in: device, at: "0.0.0.0")
            let there = try SocketAddress(Self.server, 7100)
            var source: SocketAddress?
            try eventually("a datagram passes") {
                socket.send([1], to: there)
                source = server.receive(within: .milliseconds(200))?.source
                return source != nil
            }
            return try #require(source).bytes[4..<8].map { "\($0)" }.joined(separator: ".")
        }

        /// Configures a stock daemon with an exported file: everything that wg(8) reads, and the work of wg-quick(8) for the
        /// rest.
        /// - Parameter router: The daemon's way to the gateway.
        func configure(_ daemon: DaemonProcess, with text: String, via router: String) throws {
            let file = try files.write(text, to: "\(daemon.name).conf")
            try Wg.configure(daemon.name, try PrivilegedTests.run(["wg-quick", "strip", file]).output)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Address = ") })
            let addresses = line.dropFirst("Address = ".count).replacing(" ", with: "").split(separator: ",").map(
                String.init)
            #expect(addresses.count == 2, "\(text)")
            let namespace = daemon.namespace
            for address in addresses { try namespace.run("ip", "address", "add", address, "dev", daemon.name) }
            try namespace.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            try namespace.run("ip", "route", "add", Self.host, "via", router)
            try namespace.run("ip", "route", "replace", "default", "dev", daemon.name)
            try namespace.run("ip", "-6", "route", "add", "default", "dev", daemon.name)
        }

        /// Invites a user's device, and enrols it as the profile `office`.
        func enrolOffice(of user: String, in namespace: Namespace) throws {
            let invitation = "\(files.path)/\(user).invitation"
            try culvert("gateway", "user", "add", user)
            try culvert("gateway", "invite", user, "--output", invitation)
            let enrolled = try culvert("enroll", invitation, "--name", "office", in: namespace)
            #expect(enrolled.contains(" of \(user): device "), "\(enrolled)")
            #expect(enrolled.contains("addresses: 10.66.0."), "\(enrolled)")
        }
    }
#endif
