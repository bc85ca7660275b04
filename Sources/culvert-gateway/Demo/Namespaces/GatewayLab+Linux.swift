// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import Gateway
    import NetworkAddresses
    import PacketTunnel
    import PacketTunnelLinux
    import Provisioning
    import TunnelIO
    import TunnelSystem

    /// A device, a gateway and a server in network namespaces of their own, with the programs that people use.
    ///
    /// The server knows no way to the device or into the tunnel: it answers what comes from the gateway's address. Whatever was
    /// made is removed by ``remove()``, however far the demonstration came.
    final class GatewayLab {
        let device = "cvg\(getpid())a"
        let gateway = "cvg\(getpid())b"
        let server = "cvg\(getpid())c"
        /// The gateway as the device finds it, and the server.
        static let gatewayAddress = "192.0.2.1"
        static let serverAddress = "203.0.113.7"
        static let serverAddress6 = "2001:db8:7::7"
        /// The device's interface, and its profile.
        static let tunnel = "office"

        private let interruption: Int32
        private let folder: String
        private let programs: String
        private var namespaces: [String] = []
        private var running: ChildProcess?
        private var isUp = false

        /// - Parameters:
        ///   - folder: a new one, for all that is written.
        ///   - interruption: ends what is waited for when it polls readable.
        init(folder: String, interruption: Int32) throws(DemoFailure) {
            (self.folder, self.interruption) = (folder, interruption)
            let own = SystemCall.linkTarget("/proc/self/exe") ?? ""
            programs = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
            for name in ["culvert", "culvert-enroll"] where unsafe access("\(programs)/\(name)", X_OK) != 0 {
                throw DemoFailure("\(name) is not in \(programs): 'make build' builds all programs")
            }
        }

        var client: AdminClient { AdminClient(socket: folder + "/run/admin.sock") }

        // MARK: - The network

        func makeNamespaces() throws(DemoFailure) {
            for name in [device, gateway, server] {
                try ip("netns", "add", name)
                // Not before: one that was there already is not ours to remove.
                namespaces.append(name)
                try ip("-n", name, "link", "set", "lo", "up")
            }
            try cable(device, "eth0", ["192.0.2.2/24"], gateway, "eth0", ["\(Self.gatewayAddress)/24"])
            try cable(
                gateway, "eth1", ["203.0.113.1/24", "2001:db8:7::1/64"], server, "eth0",
                ["\(Self.serverAddress)/24", "\(Self.serverAddress6)/64"])
            try ip("-n", device, "route", "add", "default", "via", Self.gatewayAddress)
        }

        private func cable(
            _ one: String, _ link: String, _ addresses: [String], _ other: String, _ otherLink: String,
            _ otherAddresses: [String]
        ) throws(DemoFailure) {
            try ip("link", "add", link, "netns", one, "type", "veth", "peer", "name", otherLink, "netns", other)
            for (name, link, addresses) in [(one, link, addresses), (other, otherLink, otherAddresses)] {
                for address in addresses {
                    let isIPv6 = address.contains(":")
                    try ip(["-n", name, "address", "add", address, "dev", link] + (isIPv6 ? ["nodad"] : []))
                }
                try ip("-n", name, "link", "set", link, "up")
            }
        }

        // MARK: - The gateway

        /// Makes the gateway's folder.
        func makeGateway() throws(DemoFailure) -> GatewaySettings {
            var settings = GatewaySettings()
            do {
                settings.host = Self.gatewayAddress
                settings.label = "demo"
                settings.socket = folder + "/run/admin.sock"
                settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
                _ = try GatewayDirectory.make(folder + "/gateway", settings, backupKey: folder + "/backup.key")
            } catch {
                throw DemoFailure("\(error)")
            }
            return settings
        }

        /// Starts `culvert-gateway run`, and waits until it serves.
        func startGateway() throws(DemoFailure) {
            let child = try start(
                [
                    programs + "/culvert-gateway", "run", "--directory", folder + "/gateway", "--journal",
                    folder + "/journal",
                ], in: gateway)
            running = child
            let deadline = LaneClock.now() + 20 * LaneClock.nanosecondsPerSecond
            switch child.wait(forOutput: "serving ", until: deadline, interruption: interruption) {
            case nil: break
            case .interrupted: throw .interrupted
            case .ended(let outcome): throw DemoFailure("the gateway has ended: \(outcome.lastLine)")
            case .timedOut: throw DemoFailure("the gateway does not serve after 20 s: \(child.outputSoFar)")
            }
        }

        /// Asks the gateway as its administrator.
        @discardableResult
        func ask(_ method: String, _ path: String, _ body: JSON? = nil) throws(DemoFailure) -> JSON {
            do throws(CommandFailure) { return try client.ask(method, path, body) } catch {
                throw DemoFailure("the gateway refused: \(error)")
            }
        }

        // MARK: - The device

        /// Enrols by an invitation, which a file has for that moment.
        func enrol(_ invitation: String) throws(DemoFailure) {
            let file = folder + "/invitation"
            do throws(CommandFailure) { try SecretFile(new: file).write(invitation + "\n") } catch {
                throw DemoFailure("\(error)")
            }
            defer { unsafe _ = unlink(file) }
            try succeed(
                [
                    programs + "/culvert-enroll", "device", file, "--name", Self.tunnel, "--directory",
                    folder + "/profiles",
                ], seconds: 40)
        }

        func bringUp() throws(DemoFailure) {
            isUp = true
            // The machine's name servers are not the namespace's alone.
            try succeed(
                [programs + "/culvert", "up", Self.tunnel, "--no-dns", "--directory", folder + "/profiles"],
                seconds: 40)
        }

        func bringDown() throws(DemoFailure) {
            guard isUp else { return }
            try succeed([programs + "/culvert", "down", Self.tunnel], seconds: 40)
            isUp = false
        }

        private func succeed(_ arguments: [String], seconds: Int) throws(DemoFailure) {
            let outcome = try run(arguments, in: device, seconds: seconds)
            guard outcome.status == 0 else {
                let name = arguments[0].split(separator: "/").last ?? ""
                throw DemoFailure("\(name) \(arguments[1]) ended with status \(outcome.status): \(outcome.output)")
            }
        }

        /// Whether one ping is answered in time.
        func pings(_ address: String, within seconds: String) throws(DemoFailure) -> Bool {
            try run(["ping", "-n", "-q", "-c", "1", "-W", seconds, address], in: device, seconds: 20).status == 0
        }

        // MARK: - Programs

        private var environment: [String] {
            let inherited = ["PATH", "HOME", "LANG"].compactMap { name in
                StandardStream.environment(name).map { "\(name)=\($0)" }
            }
            // Words and numbers of the tools are read, so they are asked for in one language.
            return inherited + ["LC_ALL=C", "CULVERT_RUNTIME_DIRECTORY=\(folder)/tunnels"]
        }

        private func child(_ arguments: [String]) throws(DemoFailure) -> ChildProcess {
            do throws(SystemError) {
                return try ChildProcess(
                    arguments[0], isSearched: true, arguments: arguments, environment: environment)
            } catch {
                throw DemoFailure("\(error)")
            }
        }

        /// Starts a program in a namespace.
        func start(_ arguments: [String], in namespace: String) throws(DemoFailure) -> ChildProcess {
            try child(["ip", "netns", "exec", namespace] + arguments)
        }

        /// Runs a program in a namespace.
        func run(
            _ arguments: [String], in namespace: String, seconds: Int
        ) throws(DemoFailure) -> ChildProcess.Outcome {
            try ending(try start(arguments, in: namespace), arguments[0], seconds)
        }

        private func ending(
            _ child: ChildProcess, _ name: String, _ seconds: Int, isInterruptible: Bool = true
        ) throws(DemoFailure) -> ChildProcess.Outcome {
            let deadline = LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond
            switch child.wait(until: deadline, interruption: isInterruptible ? interruption : nil) {
            case .ended(let outcome): return outcome
            case .interrupted:
                child.stop()
                throw .interrupted
            case .timedOut:
                child.stop()
                throw DemoFailure("\(name) did not end within \(seconds) s")
            }
        }

        private func ip(_ arguments: String...) throws(DemoFailure) { try ip(arguments) }

        private func ip(_ arguments: [String]) throws(DemoFailure) {
            let outcome = try ending(try child(["ip"] + arguments), "ip", 10)
            guard outcome.status == 0 else {
                throw DemoFailure("ip \(arguments.joined(separator: " ")): \(outcome.lastLine)")
            }
        }

        // MARK: - Removing

        /// Ends and removes everything that was made. Safe to repeat.
        /// - Returns: what could not be removed, and why.
        func remove() -> [String] {
            var problems: [String] = []
            func attempt(_ arguments: [String], _ seconds: Int) {
                do throws(DemoFailure) {
                    let outcome = try ending(try child(arguments), arguments[0], seconds, isInterruptible: false)
                    if outcome.status != 0 {
                        problems.append("\(arguments.joined(separator: " ")): \(outcome.lastLine)")
                    }
                } catch {
                    problems.append("\(error)")
                }
            }
            if isUp {
                attempt(
                    ["ip", "netns", "exec", device, programs + "/culvert", "down", Self.tunnel], 40)
                isUp = false
            }
            if let running {
                kill(running.id, SIGTERM)
                do throws(DemoFailure) {
                    _ = try ending(running, "the gateway", 20, isInterruptible: false)
                } catch {
                    problems.append("\(error)")
                }
            }
            running = nil
            for name in namespaces where unsafe access("/var/run/netns/\(name)", F_OK) == 0 {
                attempt(["ip", "netns", "delete", name], 10)
            }
            namespaces = []
            return problems
        }
    }
#endif
