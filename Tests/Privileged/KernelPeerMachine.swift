// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Synchronization
    import WireGuardCore

    /// A virtual machine with Debian's kernel and its WireGuard. `dev/machine kernel` creates its boot files in the
    /// folder that `CULVERT_KERNEL_PEER` names.
    enum KernelPeerMachine {
        static let folder = VirtualMachine.folder("CULVERT_KERNEL_PEER")
        /// One machine for all tests, because its start takes seconds.
        static let shared = Result { try VirtualMachine(folder, ["-m", "384", "-no-reboot"]) }
        private static let pairs = Atomic<Int>(0)

        static func nextPair() -> Int { pairs.wrappingAdd(1, ordering: .relaxed).newValue }
    }

    /// The end that learns the other's endpoint first.
    enum KernelPeerStart {
        case daemon, kernel, both
    }

    /// A tunnel between a culvert-wg and the machine's kernel, without a session yet.
    final class KernelPeerPair {
        let machine: VirtualMachine
        let daemon: DaemonProcess
        /// The interface's name in the machine.
        let link: String
        let keys = StaticKeys()
        let kernelKeys = StaticKeys()
        let presharedKey: String?
        private let number: Int
        private let configuration: String
        private let kernelConfiguration: String

        /// The addresses inside the tunnel, of the daemon's end and of the kernel's end.
        var inner: [String] { ["10.99.\(number).1", "fd99:\(number)::1"] }
        var kernelInner: [String] { ["10.99.\(number).2", "fd99:\(number)::2"] }
        var port: Int { 51_900 + number }
        var kernelPort: Int { 51_800 + number }

        init(
            _ family: IPFamily = .v4, start: KernelPeerStart = .both, hasPresharedKey: Bool = true, keepalive: Int = 0
        ) throws {
            machine = try KernelPeerMachine.shared.get()
            number = KernelPeerMachine.nextPair()
            link = "wg\(number)"
            daemon = try DaemonProcess(.culvert, in: machine.namespace)
            var random = SystemRandomNumberGenerator()
            presharedKey = hasPresharedKey ? PresharedKey(using: &random).exportedBase64 : nil
            let secret = presharedKey.map { "PresharedKey = \($0)\n" } ?? ""
            func outer(_ end: Int, _ port: Int) -> String {
                family == .v4 ? "10.77.0.\(end):\(port)" : "[fd77::\(end)]:\(port)"
            }
            let network = number
            func text(_ own: StaticKeys, _ port: Int, _ other: StaticKeys, _ end: Int, _ place: String?) -> String {
                """
                [Interface]
                PrivateKey = \(own.text)
                ListenPort = \(port)
                [Peer]
                PublicKey = \(other.publicKey.base64)
                AllowedIPs = 10.99.\(network).\(end)/32, fd99:\(network)::\(end)/128
                \(place.map { "Endpoint = \($0)\n" } ?? "")\(secret)
                """
            }
            configuration =
                text(keys, 51_900 + number, kernelKeys, 2, start == .kernel ? nil : outer(2, 51_800 + number))
                + (keepalive > 0 ? "\nPersistentKeepalive = \(keepalive)\n" : "\n")
            kernelConfiguration =
                text(kernelKeys, 51_800 + number, keys, 1, start == .daemon ? nil : outer(1, 51_900 + number)) + "\n"
            try Wg.configure(daemon.name, configuration)
            try namespace.run("ip", "address", "add", "\(inner[0])/24", "dev", daemon.name)
            try namespace.run("ip", "address", "add", "\(inner[1])/64", "dev", daemon.name, "nodad")
            try namespace.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            try machine.shell(
                """
                ip link add \(link) type wireguard
                cat > /tmp/\(link) <<'END'
                \(kernelConfiguration)
                END
                wg setconf \(link) /tmp/\(link)
                ip address add \(kernelInner[0])/24 dev \(link)
                ip address add \(kernelInner[1])/64 dev \(link) nodad
                ip link set \(link) mtu 1420 up
                """)
        }

        deinit {
            _ = try? machine.attempt("ip link del \(link)")
        }

        var namespace: Namespace { machine.namespace }

        /// The daemon's state of the kernel as a peer.
        var peer: WgDump.Peer { get throws { try Wg.peer(kernelKeys.publicKey, of: daemon.name) } }

        /// The kernel's state of the daemon as a peer.
        var kernelPeer: WgDump.Peer {
            get throws {
                let text = try machine.shell("wg show \(link) dump")
                guard let peer = WgDump(text)?.peers.first else { throw CommandFailure(description: text) }
                return peer
            }
        }

        /// Removes each end's peer and adds it again, so that there is no session.
        func startAnew() throws {
            try Wg.run("set", daemon.name, "peer", kernelKeys.publicKey.base64, "remove")
            try machine.shell(
                """
                wg set \(link) peer \(keys.publicKey.base64) remove
                wg setconf \(link) /tmp/\(link)
                """)
            try Wg.configure(daemon.name, configuration)
        }

        /// Pings the kernel's end; every echo must return once and unchanged.
        /// - Parameter options: Options of ping(8).
        func ping(_ address: String, _ options: String, deadline: Duration = .seconds(60)) throws {
            let result = try namespace.runAllowingFailure(
                "sh", "-c", "exec ping -n -q \(options) \(address)", deadline: deadline)
            try Self.expectWhole(result)
        }

        /// Makes the kernel's end ping the daemon's; every echo must return once and unchanged.
        func pingFromKernel(_ address: String, _ options: String, deadline: Duration = .seconds(60)) throws {
            try Self.expectWhole(try machine.attempt("ping -n -q \(options) \(address)", deadline: deadline))
        }

        /// Throws if an echo was lost, duplicated or changed.
        static func expectWhole(_ result: CommandResult) throws {
            let isWhole =
                result.status == 0 && result.output.contains(" 0% packet loss")
                && !["duplicates", "wrong data", "errors"].contains { result.output.contains($0) }
            guard isWhole else { throw CommandFailure(description: "\(result)") }
        }
    }
#endif
