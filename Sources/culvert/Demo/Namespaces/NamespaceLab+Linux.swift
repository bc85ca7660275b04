// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import NetworkAddresses
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem
    import WireGuardCore
    import WireGuardDevice

    /// Two network namespaces joined by a virtual cable, with a daemon and its interface in each.
    ///
    /// Whatever was made is removed by ``remove()``, however far ``NamespaceDemo`` came.
    final class NamespaceLab {
        /// One of the two ends.
        struct Side {
            /// The name of the namespace and of the WireGuard interface in it.
            var name: String
            /// The end of the cable.
            var cable: String
            var cableAddress: String
            var tunnelV4: String
            var tunnelV6: String
            var number: UInt8
            var privateKey: PrivateKey

            init(letter: Character, number: UInt8) {
                var generator = SystemRandomNumberGenerator()
                name = "cvd\(getpid())\(letter)"
                cable = "cvd\(getpid())v\(letter)"
                cableAddress = "192.0.2.\(number)"
                tunnelV4 = "10.77.0.\(number)"
                tunnelV6 = "fd77::\(number)"
                self.number = number
                privateKey = PrivateKey(using: &generator)
            }

            var managementPath: String { ManagementSocket.path(forInterface: name) }
        }

        let client = Side(letter: "a", number: 2)
        let server = Side(letter: "b", number: 1)
        private let interruption: Int32
        private var namespaces: [String] = []
        private var daemons: [ChildProcess] = []

        static let serverPort: UInt16 = 51820
        static let mtu = 1420

        init(interruption: Int32) { self.interruption = interruption }

        // MARK: - Making

        /// Makes the namespaces and the cable between them.
        func makeNamespaces() throws(DemoFailure) {
            for side in [client, server] {
                // Noted first: a step that fails half-way is undone too.
                namespaces.append(side.name)
                try ip("netns", "add", side.name)
            }
            try ip(
                "link", "add", client.cable, "netns", client.name, "type", "veth", "peer", "name", server.cable,
                "netns", server.name)
            for side in [client, server] {
                try ip("-n", side.name, "address", "add", "\(side.cableAddress)/24", "dev", side.cable)
                try ip("-n", side.name, "link", "set", "lo", "up")
                try ip("-n", side.name, "link", "set", side.cable, "up")
            }
        }

        /// Starts a daemon in each namespace and waits until both serve.
        func startDaemons(program: String) throws(DemoFailure) {
            for side in [client, server] {
                let report = try Interruption.makePipe()
                let daemon = try ChildProcess(
                    ["ip", "netns", "exec", side.name, program, "--foreground", side.name],
                    environment: ["LOG_LEVEL=error", "CULVERT_READY_FD=\(ChildProcess.reportNumber)"],
                    report: report.writer.number)
                report.writer.close()
                daemons.append(daemon)
                defer { report.reader.close() }
                try Interruption.awaitReadable(
                    report.reader.number, until: LaneClock.now() + 5_000_000_000, interruption: interruption)
                var byte: UInt8 = 0
                guard unsafe read(report.reader.number, &byte, 1) == 1 else {
                    let outcome = try daemon.outcome(until: LaneClock.now() + 2_000_000_000, interruption: interruption)
                    throw DemoFailure("\(program) did not start: \(outcome.status), \(outcome.lastLine)")
                }
            }
        }

        /// Tells each daemon its key and the other, and brings the interfaces up.
        func configure() throws(DemoFailure) {
            for (side, other) in [(client, server), (server, client)] {
                var peer = UAPIPeerUpdate(publicKey: other.privateKey.publicKey)
                peer.replaceAllowedIPs = true
                peer.allowedIPs = other.prefixes.map { .add($0) }
                if side.number == client.number {
                    peer.endpoint = Endpoint(
                        address: IPAddress.v4(0xc000_0200 + UInt32(other.number)), port: NamespaceLab.serverPort)
                }
                var update = UAPIDeviceUpdate()
                update.privateKey = .set(side.privateKey)
                update.listenPort = side.number == server.number ? NamespaceLab.serverPort : 0
                update.peers = [peer]
                try management(side).set(update)
                try ip("-n", side.name, "address", "add", "\(side.tunnelV4)/24", "dev", side.name)
                try ip("-n", side.name, "address", "add", "\(side.tunnelV6)/64", "dev", side.name, "nodad")
                try ip("-n", side.name, "link", "set", side.name, "mtu", "\(NamespaceLab.mtu)", "up")
            }
        }

        /// The daemon of a side.
        func management(_ side: Side) -> ManagementClient {
            ManagementClient(path: side.managementPath, interruption: interruption)
        }

        // MARK: - Programs

        /// Starts a program in the namespace of a side.
        func start(_ arguments: [String], in side: Side) throws(DemoFailure) -> ChildProcess {
            try ChildProcess(["ip", "netns", "exec", side.name] + arguments)
        }

        /// Runs a program in the namespace of a side.
        func run(
            _ arguments: [String], in side: Side, seconds: Int
        ) throws(DemoFailure) -> ChildProcess.Outcome {
            let child = try start(arguments, in: side)
            let deadline = LaneClock.now() + Int64(seconds) * 1_000_000_000
            do throws(DemoFailure) {
                return try child.outcome(until: deadline, interruption: interruption)
            } catch {
                child.stop()
                guard !error.isInterruption else { throw error }
                throw DemoFailure("\(arguments.first ?? "") did not end within \(seconds) s")
            }
        }

        private func ip(_ arguments: String...) throws(DemoFailure) {
            let child = try ChildProcess(["ip"] + arguments)
            let outcome = try child.outcome(until: LaneClock.now() + 10_000_000_000, interruption: interruption)
            guard outcome.status == 0 else {
                throw DemoFailure("ip \(arguments.joined(separator: " ")): \(outcome.lastLine)")
            }
        }

        // MARK: - Removing

        /// Ends and removes everything that was made. Safe to repeat.
        /// - Returns: what could not be removed, and why.
        func remove() -> [String] {
            var problems: [String] = []
            for daemon in daemons { daemon.stop() }
            daemons = []
            for name in namespaces {
                do throws(DemoFailure) {
                    let child = try ChildProcess(["ip", "netns", "delete", name])
                    let outcome = try child.outcome(until: LaneClock.now() + 10_000_000_000, interruption: nil)
                    let isThere = unsafe access("/var/run/netns/\(name)", F_OK) == 0
                    if outcome.status != 0, isThere {
                        problems.append("ip netns delete \(name): \(outcome.lastLine)")
                    }
                } catch {
                    problems.append("ip netns delete \(name): \(error)")
                }
            }
            namespaces = []
            // The daemons do this themselves, unless they had to be killed.
            for side in [client, server] { unsafe _ = unlink(side.managementPath) }
            return problems
        }
    }

    extension NamespaceLab.Side {
        /// The tunnel addresses as single networks.
        fileprivate var prefixes: [IPPrefix] {
            let v4 = IPAddress.v4(0x0a4d_0000 + UInt32(number))
            let v6 = IPAddress.v6(0xfd77_0000_0000_0000, UInt64(number))
            return [IPPrefix(v4, length: 32), IPPrefix(v6, length: 128)].compactMap { $0 }
        }
    }
#endif
