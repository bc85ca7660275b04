// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    /// A host and, behind its router, a wireguard-go server that is its clients' default gateway, with a wg-quick file
    /// for it.
    final class CulvertUpScene {
        let world: LinuxHostWorld
        let server: DaemonProcess
        /// The tunnel's name on the host.
        let name = UniqueInterface.next()
        /// The folder for sockets, journals and logs of the host's tunnels.
        let runtime: TemporaryFolder
        let files: TemporaryFolder
        private let etc: PrivateEtc
        private let serverKeys = StaticKeys()
        private let keys = StaticKeys()
        /// The state of the network before there was a tunnel.
        let before: [String]

        static let resolvConf = "nameserver 192.0.2.53\noptions edns0\n# not by any program\n"
        static let port = 51_820
        /// The addresses of the server inside the tunnel.
        static let gateway4 = "10.77.0.1"
        static let gateway6 = "fd77::1"

        init() throws {
            etc = try PrivateEtc(resolvConf: Self.resolvConf)
            world = try LinuxHostWorld()
            runtime = try TemporaryFolder()
            files = try TemporaryFolder()
            server = try DaemonProcess(.wireguardGo, in: world.router)
            try Wg.configure(
                server.name,
                """
                [Interface]
                PrivateKey = \(serverKeys.text)
                ListenPort = \(Self.port)
                [Peer]
                PublicKey = \(keys.publicKey.base64)
                AllowedIPs = 10.77.0.2/32, fd77::2/128

                """)
            try world.router.run("ip", "address", "add", "\(Self.gateway4)/24", "dev", server.name)
            try world.router.run("ip", "address", "add", "\(Self.gateway6)/64", "dev", server.name, "nodad")
            try world.router.run("ip", "link", "set", server.name, "mtu", "1420", "up")
            before = try world.snapshot()
        }

        deinit {
            // There are remains only if a test failed.
            guard !remains.isEmpty else { return }
            for process in processes { kill(process, SIGKILL) }
            _ = try? eventually("the processes have ended") { processes.isEmpty }
            _ = try? run("cleanup")
        }

        /// Writes the file that a provider would give to its customer; returns its path.
        @discardableResult
        func writeFile(
            interface: String = "DNS = \(gateway4), corp.example", server: String = "192.0.2.1", port: Int = port,
            allowedIPs: String = "0.0.0.0/0, ::/0", name: String? = nil, hasKey: Bool = true
        ) throws -> String {
            try files.write(
                """
                [Interface]
                \(hasKey ? "PrivateKey = \(keys.text)" : "")
                Address = 10.77.0.2/24, fd77::2/64
                \(interface)

                [Peer]
                PublicKey = \(serverKeys.publicKey.base64)
                Endpoint = \(server):\(port)
                AllowedIPs = \(allowedIPs)

                """, to: "\(name ?? self.name).conf")
        }

        /// The state of this host as a peer, according to `wg show` on the server.
        var peer: WgDump.Peer { get throws { try Wg.peer(keys.publicKey, of: server.name) } }

        var privateKey: String { keys.text }

        /// Makes the server ignore all datagrams, or answer again.
        func setServer(isSilent: Bool) throws {
            guard isSilent else {
                try world.router.run("nft", "delete", "table", "inet", "silence")
                return
            }
            try world.router.run("nft", "add", "table", "inet", "silence")
            try world.router.run("nft", "add chain inet silence input { type filter hook input priority -300; }")
            try world.router.run("nft", "add rule inet silence input udp dport \(Self.port) drop")
        }

        // MARK: - The program

        /// The program built with this test bundle; `CULVERT` names another build.
        static let program: String = {
            if let path = ProcessInfo.processInfo.environment["CULVERT"], !path.isEmpty { return path }
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            let candidates = [bundle, CommandLine.arguments.first ?? ""].map {
                URL(fileURLWithPath: $0).deletingLastPathComponent().appendingPathComponent("culvert").path
            }
            return candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? "culvert"
        }()

        /// A command of the program, in the host's namespace.
        func command(_ arguments: [String], environment: [String] = []) -> [String] {
            ["ip", "netns", "exec", world.host.name, "env", "CULVERT_RUNTIME_DIRECTORY=\(runtime.path)"] + environment
                + [Self.program] + arguments
        }

        /// Runs the program and accepts any status.
        @discardableResult
        func run(_ arguments: String..., deadline: Duration = .seconds(120)) throws -> CommandResult {
            try PrivilegedTests.runAllowingFailure(command(arguments), deadline: deadline)
        }

        /// Runs the program, which must succeed; returns its output.
        @discardableResult
        func succeed(_ arguments: String..., deadline: Duration = .seconds(120)) throws -> String {
            try PrivilegedTests.run(command(arguments), deadline: deadline).output
        }

        /// The members of the tunnel in `status --json`.
        func status(of name: String? = nil) throws -> [String: Any] {
            let text = try succeed("status", name ?? self.name, "--json")
            let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: [[String: Any]]]
            guard let tunnel = document?["tunnels"]?.first else { throw CommandFailure(description: text) }
            return tunnel
        }

        /// The parts of the tunnel's network that are not in effect, in `status --json`.
        func problems() throws -> [String] {
            let problems = try status()["problems"] as? [[String: Any]] ?? []
            #expect(problems.allSatisfy { $0["since"] is Double })
            return problems.compactMap { $0["what"] as? String }
        }

        /// Sends packets along the routes, and returns those that the router receives unencrypted.
        func packetsInClear(to address: String = "8.8.8.8") throws -> [String] {
            try world.captured { for port: UInt16 in 1000..<1005 { try world.send(to: address, port: port) } }
                .filter { $0.contains(address) }
        }

        func expectNothingLeaves(
            to address: String = "8.8.8.8", sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let leaks = try packetsInClear(to: address)
            #expect(leaks.isEmpty, "\(leaks)", sourceLocation: sourceLocation)
        }

        /// Removes all policy rules, and restores the rules of other programs.
        func flushRules() throws {
            let host = world.host
            for family in ["-4", "-6"] {
                try host.run("ip", family, "rule", "flush")
                try host.run("ip", family, "rule", "add", "from", "all", "table", "main", "priority", "32766")
            }
            try host.run("ip", "rule", "add", "from", "all", "table", "default", "priority", "32767")
            try host.run("ip", "rule", "add", "to", "198.18.0.0/15", "table", "51820", "priority", "900")
        }

        /// Whether the tunnel's firewall table exists.
        func hasTable() throws -> Bool {
            try world.host.run("nft", "list", "tables").output.contains("culvert_\(name)")
        }

        /// Expects the network to equal its state before the tunnel; otherwise prints the tunnels' logs.
        func expectUnchanged(sourceLocation: SourceLocation = #_sourceLocation) throws {
            let changes = try world.changes(since: before)
            guard !changes.isEmpty else { return }
            let logs = try run("log", name, "--lines", "100").output
            let records = try PrivilegedTests.runAllowingFailure(["resolvconf", "-l"])
            Issue.record(
                "\(changes.joined(separator: "\n"))\nresolvconf: \(records)\nlog:\n\(logs)",
                sourceLocation: sourceLocation)
        }

        /// The processes that run this scene's tunnels.
        var processes: [pid_t] {
            DaemonRemains.processes(of: "culvert", with: "--foreground").filter { process in
                DaemonRemains.commandLine(of: process).contains { $0.contains(files.path) || $0 == name }
            }
        }

        /// Kills the tunnel's process. ``processes`` watches its memory; its interface disappears slightly later.
        func killProcess() throws {
            kill(try #require(processes.first), SIGKILL)
            try eventually("its process and its interface are gone") {
                try processes.isEmpty && world.host.runAllowingFailure("ip", "link", "show", "dev", name).status != 0
            }
        }

        /// The remains of tunnels, other than logs and locks.
        var remains: [String] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: runtime.path)) ?? []
            return names.filter { !$0.hasSuffix(".log") && !$0.hasSuffix(".lock") } + processes.map { "process \($0)" }
        }

        /// Pings a distant host through the current default route.
        func ping(_ address: String = "203.0.113.7") throws {
            try world.host.run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", address)
        }

        /// The interface through which the host would send packets to an address.
        func way(to address: String) throws -> String {
            let words = try world.host.run("ip", "route", "get", address).output.split(separator: " ")
            guard let index = words.firstIndex(of: "dev"), index + 1 < words.count else { return "none" }
            return String(words[index + 1])
        }

        static var resolvConfNow: String {
            get throws { try String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8) }
        }
    }
#endif
