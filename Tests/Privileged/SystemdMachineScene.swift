// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import WireGuardCore

    /// A tunnel's unit in a virtual machine with Debian's systemd, and a culvert-wg outside the machine that is also
    /// its route to the internet. `dev/machine systemd` creates the boot files in the folder that
    /// `CULVERT_SYSTEMD_MACHINE` names.
    final class SystemdMachineScene {
        static let folder = VirtualMachine.folder("CULVERT_SYSTEMD_MACHINE")
        /// One machine for all tests. Its disk keeps changes while it runs, even across reboots.
        static let shared = Result {
            try VirtualMachine(
                folder, ["-m", "1024", "-drive", "file=\(folder ?? "")/disk,if=virtio,format=raw,snapshot=on"])
        }

        /// The address of the other end of the tunnel, which is also a name server.
        static let server = "10.99.0.1"
        /// Hosts on the internet, reachable with and without the tunnel.
        static let others = ["203.0.113.7", "2001:db8:7::7"]

        let machine: VirtualMachine
        /// The tunnel's name, and that of its interface.
        let name: String
        private let daemon: DaemonProcess
        private let keys = StaticKeys()
        private let daemonKeys = StaticKeys()
        /// The state of the machine's network before the test.
        let before: String

        var unit: String { "culvert@\(name)" }

        init(_ name: String) throws {
            machine = try Self.shared.get()
            self.name = name
            // The machine's network may not be up yet.
            let machine = machine
            try eventually("the machine has its network", within: .seconds(120)) {
                try machine.attempt("ping -n -q -c 1 -W 5 10.77.0.1 && ping -n -q -c 1 -W 5 fd77::1").status == 0
            }
            daemon = try DaemonProcess(.culvert, in: machine.namespace)
            try Wg.configure(
                daemon.name,
                """
                [Interface]
                PrivateKey = \(daemonKeys.text)
                ListenPort = 51820
                [Peer]
                PublicKey = \(keys.publicKey.base64)
                AllowedIPs = 10.99.0.2/32, fd99::2/128

                """)
            let namespace = machine.namespace
            try namespace.run("ip", "address", "add", "\(Self.server)/24", "dev", daemon.name)
            try namespace.run("ip", "address", "add", "fd99::1/64", "dev", daemon.name, "nodad")
            try namespace.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            for address in Self.others { try namespace.run("ip", "address", "replace", address, "dev", "lo") }
            before = try Self.network(of: machine)
        }

        deinit {
            _ = try? machine.attempt(
                """
                systemctl stop early-traffic culvert-guard@\(name) \(unit) || true
                systemctl disable early-traffic culvert-guard@\(name) \(unit) || true
                culvert guard \(name) --release || true
                culvert profile remove \(name) || true
                rm -f \(file)
                systemctl reset-failed
                """)
        }

        /// The tunnel's wg-quick file, which `culvert@NAME` finds.
        var file: String { "/etc/wireguard/\(name).conf" }

        /// Writes the tunnel's file.
        func writeFile(dns: String = "\(server), corp.example", allowed: String = "0.0.0.0/0, ::/0") throws {
            try machine.shell(
                """
                mkdir -p /etc/wireguard && umask 077 && cat > \(file) <<'END'
                [Interface]
                PrivateKey = \(keys.text)
                Address = 10.99.0.2/24, fd99::2/64
                DNS = \(dns)
                [Peer]
                PublicKey = \(daemonKeys.publicKey.base64)
                AllowedIPs = \(allowed)
                Endpoint = 10.77.0.1:51820
                END
                """)
        }

        /// Stores the tunnel as a profile instead of a file.
        func addProfile(policy: String) throws {
            try writeFile()
            try machine.shell("culvert profile add \(file) --leak-policy \(policy) && rm \(file)")
        }

        /// Waits until a host on the Internet answers, by any route, within the deadline.
        func waitForAnswers() throws {
            for address in Self.others {
                try eventually("\(address) answers", within: .seconds(120)) {
                    try machine.attempt("ping -n -q -c 1 -W 5 \(address)").status == 0
                }
            }
        }

        /// The bytes that the daemon has received from the tunnel's peer.
        var received: Int { get throws { try peer.received } }
        var peer: WgDump.Peer { get throws { try Wg.peer(keys.publicKey, of: daemon.name) } }
        /// The daemon's interface, at the other end of the tunnel.
        var link: String { daemon.name }

        /// Returns a property of the tunnel's unit from systemd.
        func property(_ property: String) throws -> String {
            try machine.shell("systemctl show --value -p \(property) \(unit)").trimmingCharacters(
                in: .whitespacesAndNewlines)
        }

        /// Returns interfaces, rules, routes, name servers and firewall of the machine, without counters.
        static func network(of machine: VirtualMachine) throws -> String {
            try machine.shell(
                """
                (ip -br address; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all) | sort
                (resolvectl dns; resolvectl domain) | sed 's/^Link [0-9]*/Link/'
                nft -s list ruleset
                """)
        }

        var network: String { get throws { try Self.network(of: machine) } }

        /// Captures the packets to the internet that the machine sends unencrypted, from now on.
        func capture() throws -> Capture { try Capture(machine) }

        final class Capture {
            private let machine: VirtualMachine
            private let process: SpawnedProcess

            fileprivate init(_ machine: VirtualMachine) throws {
                self.machine = machine
                process = try machine.namespace.start(
                    "tcpdump", "-l", "-n", "-t", "--immediate-mode", "-i", "data", "-Q", "in",
                    "dst net 203.0.113.0/24 or dst net 2001:db8:7::/48 or udp dst port 65000")
                try process.waitForOutput(containing: "listening on")
            }

            /// The captured packets so far, one line each.
            var soFar: [String] {
                process.outputSoFar.split(separator: "\n").map(String.init).filter {
                    $0.hasPrefix("IP") && !$0.contains(".65000: ")
                }
            }

            /// Ends the capture. It first sends a last packet that is allowed, to the local network, so that no earlier
            /// packet is still in transit.
            func end() throws -> [String] {
                let machine = machine
                let process = process
                try eventually("the capture has the last packet", within: .seconds(60)) {
                    try machine.shell("echo end > /dev/udp/10.77.0.1/65000 || true")
                    return process.outputSoFar.contains(".65000: ")
                }
                process.signal(SIGINT)
                _ = try process.wait()
                return soFar
            }
        }
    }
#endif
