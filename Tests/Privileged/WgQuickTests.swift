// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import NetworkAddresses
    import Foundation
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("wg-quick(8)", .timeLimit(.minutes(5)))
        struct WgQuickTests {
            @Test(
                "Going up, passing traffic and going down leave addresses, MTU, routes and hooks as they should be",
                arguments: [false, true])
            func upAndDown(_ hasTable: Bool) throws {
                let quick = try WgQuick()
                let mark = quick.folder.path + "/hooks"
                try quick.write(
                    interface: """
                        Address = 192.168.241.1/24, fd24::1/64
                        MTU = 1380
                        \(hasTable ? "Table = off" : "")
                        PreUp = echo pre-up %i >> \(mark)
                        PostUp = echo post-up %i >> \(mark); ip link show %i | grep -q mtu.1380
                        PreDown = echo pre-down %i >> \(mark); wg show %i peers | grep -q .
                        PostDown = echo post-down %i >> \(mark)
                        """,
                    allowedIPs: "192.168.241.2/32, fd24::2/128, 10.55.0.0/16")
                let words = try quick.run("up")
                #expect(words.contains("Missing WireGuard kernel module"), "\(words)")
                #expect(DaemonRemains.processes(of: "culvert-wg", with: quick.name).count == 1)
                #expect(try quick.left.shell("ip route show").contains("10.55.0.0/16 dev \(quick.name)") == !hasTable)
                try quick.left.shell("ping -n -q -c 2 -i 0.02 -W 9 192.168.241.2")
                try quick.left.shell("ping -n -q -c 2 -i 0.02 -W 9 fd24::2")
                try quick.right.shell("ping -n -q -c 2 -i 0.02 -W 9 192.168.241.1")
                #expect(try Wg.dump(quick.name).peers.first?.latestHandshake ?? 0 > 0)

                let again = try quick.attempt("up")
                #expect(again.status != 0)
                #expect(again.output.contains("already exists"))
                try quick.run("down")
                try quick.expectNothingLeft()
                let hooks = try String(contentsOfFile: mark, encoding: .utf8)
                #expect(
                    hooks.split(separator: "\n")
                        == ["pre-up", "post-up", "pre-down", "post-down"].map { "\($0) \(quick.name)" })
                // And all of it once more.
                try quick.run("up")
                try quick.left.shell("ping -n -q -c 2 -i 0.02 -W 9 192.168.241.2")
                try quick.run("down")
                try quick.expectNothingLeft()
            }

            @Test(
                "A default route of both families: mark, rules, firewall; traffic for anywhere goes through the tunnel")
            func defaultRoute() throws {
                let quick = try WgQuick()
                try quick.write(
                    interface: "Address = 192.168.241.1/24, fd24::1/64", allowedIPs: "0.0.0.0/0, ::/0")
                // Distant addresses beyond the peer.
                try quick.right.shell(
                    "ip address add 203.0.113.7/32 dev lo; ip address add 2001:db8::7/128 dev lo nodad")
                let rules = try quick.rules()
                try quick.run("up")
                #expect(try Wg.dump(quick.name).mark == "0xca6c", "51820")
                #expect(try quick.rules() != rules)
                #expect(try quick.left.shell("nft list tables").contains("wg-quick-\(quick.name)"))
                #expect(try quick.left.shell("ip route get 203.0.113.7").contains("dev \(quick.name)"))
                try quick.left.shell("ping -n -q -c 3 -i 0.02 -W 9 203.0.113.7")
                try quick.left.shell("ping -n -q -c 3 -i 0.02 -W 9 2001:db8::7")
                // The tunnel's own packets are not routed into it.
                #expect(try Wg.dump(quick.name).peers.first?.endpoint == quick.right.endpoint(.v4))
                // The link's network is reached outside the tunnel.
                try quick.left.shell("ping -n -q -c 1 -W 9 \(quick.right.outer4)")
                try quick.run("down")
                #expect(try quick.rules() == rules)
                #expect(try !quick.left.shell("nft list tables").contains("wg-quick"))
                try quick.expectNothingLeft()
            }

            @Test("A pre-shared key and keepalive are saved with later changes")
            func save() throws {
                let quick = try WgQuick()
                try quick.write(
                    interface: "Address = 192.168.241.1/24\nSaveConfig = true\nPostUp = true %i",
                    allowedIPs: "192.168.241.2/32")
                try quick.run("up")
                try Wg.run(
                    "set", quick.name, "listen-port", "4321", "peer", quick.right.keys.publicKey.base64,
                    "persistent-keepalive", "7")
                try quick.run("save")
                let saved = try String(contentsOfFile: quick.file, encoding: .utf8)
                for line in [
                    "Address = 192.168.241.1/24", "SaveConfig = true", "PostUp = true %i", "ListenPort = 4321",
                    "PrivateKey = \(quick.left.keys.text)", "PublicKey = \(quick.right.keys.publicKey.base64)",
                    "AllowedIPs = 192.168.241.2/32", "Endpoint = \(quick.right.endpoint(.v4))",
                    "PersistentKeepalive = 7",
                ] {
                    #expect(saved.contains(line + "\n"), "\(line) is missing in:\n\(saved)")
                }
                let extra = StaticKeys().publicKey.base64
                try Wg.run("set", quick.name, "peer", extra, "allowed-ips", "10.66.0.0/24")
                // `down` saves the configuration as well.
                try quick.run("down")
                #expect(try String(contentsOfFile: quick.file, encoding: .utf8).contains("PublicKey = \(extra)\n"))
                try quick.expectNothingLeft()
                try quick.run("up")
                #expect(try Wg.dump(quick.name).peers.count == 2)
                #expect(try Wg.dump(quick.name).listenPort == 4321)
                try quick.left.shell("ping -n -q -c 1 -W 9 192.168.241.2")
                try quick.run("down")
                try quick.expectNothingLeft()
            }

            @Test("A configuration that fails half-way is taken down again")
            func failure() throws {
                let quick = try WgQuick()
                try quick.write(
                    interface: "Address = 192.168.241.1/24\nPostUp = false", allowedIPs: "192.168.241.2/32")
                let result = try quick.attempt("up")
                #expect(result.status != 0)
                try quick.expectNothingLeft()
                // The values that wg(8) refuses.
                try quick.write(interface: "Address = 192.168.241.1/24", allowedIPs: "192.168.241.2/99")
                #expect(try quick.attempt("up").status != 0)
                try quick.expectNothingLeft()
            }
        }
    }

    /// wg-quick(8) with our daemon, in a namespace that is linked to another one with a peer.
    ///
    /// wg-quick starts a daemon only if the kernel has no WireGuard. To force this, its mount namespace, which `ip netns
    /// exec` creates, has an ip(8) that cannot create such interfaces, and no kernel modules.
    private final class WgQuick {
        let folder: TemporaryFolder
        let name = UniqueInterface.next()
        /// The left end. The test uses its namespace, keys and addresses, but not its daemon.
        let left: PairEnd
        let right: PairEnd
        private let pair: TunnelPair

        init() throws {
            folder = try TemporaryFolder()
            pair = try TunnelPair(.culvert, .wireguardGo)
            left = pair.left
            right = pair.right
            try left.daemon.stop()
            try PlacedProgram.write(
                """
                #!/bin/sh
                case "$*" in *"type wireguard"*) echo "Error: Unknown device type." >&2; exit 2 ;; esac
                exec \(folder.path)/ip "$@"
                """, to: "\(folder.path)/ip-without-wireguard")
        }

        deinit {
            for process in DaemonRemains.processes(of: "culvert-wg", with: name) { kill(process, SIGKILL) }
            unsafe _ = unlink(ManagementClient.path(name))
        }

        var file: String { "\(folder.path)/\(name).conf" }

        /// Writes the configuration file.
        func write(interface: String, allowedIPs: String) throws {
            _ = try folder.write(
                """
                [Interface]
                PrivateKey = \(left.keys.text)
                ListenPort = \(left.port)
                \(interface)

                [Peer]
                PublicKey = \(right.keys.publicKey.base64)
                Endpoint = \(right.endpoint(.v4))
                AllowedIPs = \(allowedIPs)

                """, to: "\(name).conf")
        }

        /// Runs `wg-quick VERB` and accepts any status.
        func attempt(_ verb: String) throws -> CommandResult {
            try left.namespace.runAllowingFailure(
                "sh", "-ec",
                """
                real=$(readlink -f "$(command -v ip)")
                cp "$real" \(folder.path)/ip
                mount --bind \(folder.path)/ip-without-wireguard "$real"
                mount -t tmpfs none /sys/module
                WG_QUICK_USERSPACE_IMPLEMENTATION=\(DaemonProgram.culvert.path) exec wg-quick \(verb) \(file)
                """)
        }

        /// Runs `wg-quick VERB`.
        @discardableResult
        func run(_ verb: String) throws -> String {
            let result = try attempt(verb)
            guard result.status == 0 else { throw CommandFailure(description: "\(result)") }
            return result.output
        }

        /// Policy rules of both families, and all routes.
        func rules() throws -> String {
            try left.shell("ip rule; ip -6 rule; ip route show table all type unicast | grep -v veth || true")
        }

        /// Waits for the daemon's end, and expects that no trace is left.
        func expectNothingLeft() throws {
            try eventually("the daemon has ended") {
                DaemonRemains.processes(of: "culvert-wg", with: name).isEmpty
            }
            #expect(try DaemonRemains.of(name, in: left.namespace) == [])
            #expect(try !left.shell("ip route show table all; ip -6 route show table all").contains(name))
            #expect(try left.namespace.run("ss", "-Hlun").output == "")
        }
    }
#endif
