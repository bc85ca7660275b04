// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import WireGuardCore

    /// The options of a tunnel between two daemons.
    struct PairOptions {
        /// The address family of the endpoints.
        var outer = IPFamily.v4
        /// The MTU of the link between the namespaces.
        var outerMTU = 1500
        /// The MTU inside the tunnel. Below 1280 there is no IPv6 inside.
        var innerMTU = 1420
        var hasPresharedKey = false
        /// Whether the right end has the left end's endpoint. The left end always has the right end's.
        var rightKnowsLeft = false
        /// Variables of both daemons, as `NAME=value`.
        var environment: [String] = []
        /// Further variables of the left daemon, which have precedence.
        var leftEnvironment: [String] = []

        var hasInnerIPv6: Bool { innerMTU >= 1280 }
    }

    /// One end of a tunnel: a namespace with a link to the other end and a daemon in it.
    final class PairEnd {
        /// 1 for the left end, 2 for the right end.
        let number: Int
        let namespace: Namespace
        let keys = StaticKeys()
        let port: Int
        /// Replaced at a restart of the daemon.
        var daemon: DaemonProcess

        init(_ number: Int, _ program: DaemonProgram, environment: [String] = []) throws {
            self.number = number
            port = 1000 * number
            namespace = try Namespace()
            daemon = try DaemonProcess(program, in: namespace, environment: environment)
        }

        var name: String { daemon.name }
        var outer4: String { "10.9.0.\(number)" }
        var outer6: String { "fd09::\(number)" }
        var inner4: String { "192.168.241.\(number)" }
        var inner6: String { "fd24::\(number)" }

        /// The end's endpoint on the link.
        func endpoint(_ family: IPFamily) -> String { family == .v4 ? "\(outer4):\(port)" : "[\(outer6)]:\(port)" }

        /// The end's address inside the tunnel.
        func inner(_ family: IPFamily) -> String { family == .v4 ? inner4 : inner6 }

        /// Runs a shell script in the end's namespace, up to the first command that fails.
        @discardableResult
        func shell(_ script: String, deadline: Duration = Privileged.patience) throws -> String {
            try namespace.run("sh", "-ec", script, deadline: deadline).output
        }

        /// This end's state of the other end as a peer.
        func peer(_ other: PairEnd) throws -> WgDump.Peer { try Wg.peer(other.keys.publicKey, of: name) }
    }

    /// Two daemons in two linked namespaces, without a session yet.
    final class TunnelPair {
        let left: PairEnd
        let right: PairEnd
        let options: PairOptions
        private let presharedKey: String?

        init(_ left: DaemonProgram, _ right: DaemonProgram, _ options: PairOptions = PairOptions()) throws {
            self.options = options
            self.left = try PairEnd(1, left, environment: options.environment + options.leftEnvironment)
            self.right = try PairEnd(2, right, environment: options.environment)
            var random = SystemRandomNumberGenerator()
            presharedKey = options.hasPresharedKey ? PresharedKey(using: &random).exportedBase64 : nil
            try self.left.shell(
                "ip link add veth type veth peer name veth netns \(self.right.namespace.name)")
            for end in [self.left, self.right] {
                try end.shell(
                    """
                    ip link set veth mtu \(options.outerMTU) up
                    ip address add \(end.outer4)/24 dev veth
                    ip address add \(end.outer6)/64 dev veth nodad
                    """)
                try bringUp(end)
            }
        }

        /// The end that is not this one.
        func other(_ end: PairEnd) -> PairEnd { end === left ? right : left }

        /// Returns the configuration of an end in the form of wg(8).
        func configuration(of end: PairEnd) -> String {
            let other = other(end)
            var text = """
                [Interface]
                PrivateKey = \(end.keys.text)
                ListenPort = \(end.port)
                [Peer]
                PublicKey = \(other.keys.publicKey.base64)
                AllowedIPs = \(other.inner4)/32, \(other.inner6)/128

                """
            if let presharedKey { text += "PresharedKey = \(presharedKey)\n" }
            if end === left || options.rightKnowsLeft { text += "Endpoint = \(other.endpoint(options.outer))\n" }
            return text
        }

        /// Configures an end's daemon and interface.
        func bringUp(_ end: PairEnd) throws {
            try Wg.configure(end.name, configuration(of: end))
            var script = """
                ip address add \(end.inner4)/24 dev \(end.name)
                ip link set \(end.name) mtu \(options.innerMTU) up

                """
            if options.hasInnerIPv6 { script += "ip address add \(end.inner6)/64 dev \(end.name) nodad\n" }
            try end.shell(script)
        }

        /// Stops an end's daemon and starts another one with the same keys.
        func restart(_ end: PairEnd) throws {
            try end.daemon.stop()
            end.daemon = try DaemonProcess(end.daemon.program, in: end.namespace)
            try bringUp(end)
        }

        /// Pings one end from the other, without fragmentation, once for each payload size.
        func ping(
            from end: PairEnd, _ family: IPFamily = .v4, sizes: [Int] = [56], deadline: Duration = Privileged.patience
        ) throws {
            let address = other(end).inner(family)
            try end.shell(
                """
                for size in \(sizes.map(String.init).joined(separator: " ")); do
                    ping -n -q -c 1 -W 9 -M do -s $size \(address) || { echo "size $size"; exit 1; }
                done
                """, deadline: deadline)
        }

        /// Pings from one end for longer than 20 milliseconds. Within this time a responder treats a second initiation
        /// as a flood. Afterwards the next handshake is answered immediately.
        func pingForAWhile(from end: PairEnd) throws {
            try end.namespace.run("ping", "-n", "-q", "-c", "4", "-i", "0.02", "-W", "9", other(end).inner4)
        }

        /// Whether a ping from one end comes back.
        func isReached(from end: PairEnd, _ family: IPFamily = .v4) throws -> Bool {
            try end.namespace.runAllowingFailure(
                "ping", "-n", "-q", "-c", "1", "-W", "1", other(end).inner(family)
            ).status == 0
        }
    }
#endif
