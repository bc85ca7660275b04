// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import WireGuardCore

    /// culvert-wg against the kernel's WireGuard; run by `dev/machine kernel`.
    @Suite(
        "The kernel's WireGuard, in a virtual machine", .serialized, .enabled(if: KernelPeerMachine.folder != nil),
        .timeLimit(.minutes(15)))
    struct KernelPeerTests {
        @Test(
            "Either side starts, with a pre-shared key and without, over IPv4 and IPv6", arguments: [true, false],
            IPFamily.allCases)
        func handshakes(_ hasPresharedKey: Bool, _ family: IPFamily) throws {
            let first = try KernelPeerPair(family, start: .daemon, hasPresharedKey: hasPresharedKey)
            try first.ping(first.kernelInner[0], "-c 3 -i 0.2 -W 20")
            #expect(try first.peer.latestHandshake > 0)
            #expect(try first.kernelPeer.latestHandshake > 0)
            let second = try KernelPeerPair(family, start: .kernel, hasPresharedKey: hasPresharedKey)
            try second.pingFromKernel(second.inner[1], "-c 3 -i 0.2 -W 20")
            #expect(try second.peer.latestHandshake > 0)
            #expect(try second.kernelPeer.latestHandshake > 0)
        }

        @Test("There is no session when one side alone has the pre-shared key")
        func otherKey() throws {
            let pair = try KernelPeerPair(start: .daemon)
            try pair.machine.shell("wg set \(pair.link) peer \(pair.keys.publicKey.base64) preshared-key /dev/null")
            let result = try pair.namespace.runAllowingFailure(
                "ping", "-n", "-q", "-c", "2", "-W", "6", pair.kernelInner[0])
            #expect(result.output.contains("100% packet loss"), "\(result)")
            #expect(try pair.peer.latestHandshake == 0)
            #expect(try pair.kernelPeer.latestHandshake == 0)
        }

        @Test("Packets of every size arrive whole, both ways", arguments: IPFamily.allCases)
        func sizes(_ family: IPFamily) throws {
            let pair = try KernelPeerPair(family, hasPresharedKey: false)
            for (own, other) in zip(pair.inner, pair.kernelInner) {
                try pair.ping(other, "-c 1 -W 20")
                let bad = try pair.namespace.run(
                    "bash", "-c",
                    """
                    for size in $(seq 0 1420); do
                        ping -n -q -c 1 -W 9 -p a5c3 -s $size \(other) >/tmp/kernel-peer-size 2>&1 &&
                            ! grep -q 'wrong data' /tmp/kernel-peer-size || echo "$size"
                    done
                    """, deadline: .seconds(300)
                ).output
                #expect(bad.isEmpty, "to the kernel at \(other), sizes: \(bad)")
                // Payloads above the tunnel's MTU are fragmented.
                let badBack = try pair.machine.shell(
                    """
                    for size in $(seq 0 29 1421) 1420 2000 8000; do
                        ping -n -q -c 1 -W 9 -s $size \(own) >/dev/null || echo "$size"
                    done
                    """, deadline: .seconds(300))
                #expect(badBack.isEmpty, "from the kernel to \(own), sizes: \(badBack)")
            }
        }

        @Test("Roaming of either side, by port, address and family, is followed, and no side loses the other")
        func roaming() throws {
            let pair = try KernelPeerPair()
            let machine = pair.machine
            try pair.ping(pair.kernelInner[0], "-c 1 -W 20")
            func expectSeen(byKernel place: String) throws {
                try eventually("the kernel sees the daemon at \(place)", within: .seconds(60)) {
                    _ = try? pair.ping(pair.kernelInner[0], "-c 1 -W 2")
                    return try pair.kernelPeer.endpoint == place
                }
            }
            func expectSeen(byDaemon place: String) throws {
                try eventually("the daemon sees the kernel at \(place)", within: .seconds(60)) {
                    _ = try? pair.pingFromKernel(pair.inner[0], "-c 1 -W 2")
                    return try pair.peer.endpoint == place
                }
            }
            let (key, kernelKey) = (pair.keys.publicKey.base64, pair.kernelKeys.publicKey.base64)
            try Wg.run("set", pair.daemon.name, "listen-port", "52222")
            try expectSeen(byKernel: "10.77.0.1:52222")
            try machine.shell("ip address del 10.77.0.2/24 dev data; ip address add 10.77.0.3/24 dev data")
            try expectSeen(byDaemon: "10.77.0.3:\(pair.kernelPort)")
            try machine.shell("wg set \(pair.link) listen-port 52333")
            try expectSeen(byDaemon: "10.77.0.3:52333")
            try machine.shell("wg set \(pair.link) peer \(key) endpoint '[fd77::1]:52222'")
            try expectSeen(byDaemon: "[fd77::2]:52333")
            try pair.namespace.run("ip", "address", "add", "fd77::9/64", "dev", "data", "nodad")
            try pair.namespace.run("ip", "address", "del", "fd77::1/64", "dev", "data")
            try expectSeen(byKernel: "[fd77::9]:52222")
            try Wg.run("set", pair.daemon.name, "peer", kernelKey, "endpoint", "10.77.0.3:52333")
            try expectSeen(byKernel: "10.77.0.1:52222")
            try pair.namespace.run("ip", "address", "add", "fd77::1/64", "dev", "data", "nodad")
            try pair.namespace.run("ip", "address", "del", "fd77::9/64", "dev", "data")
            try machine.shell("ip address del 10.77.0.3/24 dev data; ip address add 10.77.0.2/24 dev data")
            #expect(try pair.peer.received > 0)
        }

        @Test(
            "Persistent keepalives of either side come at their interval, of 32 bytes each", arguments: [true, false])
        func keepalive(_ isDaemons: Bool) throws {
            let pair = try KernelPeerPair()
            try pair.ping(pair.kernelInner[0], "-c 2 -W 20")
            if isDaemons {
                try Wg.run(
                    "set", pair.daemon.name, "peer", pair.kernelKeys.publicKey.base64, "persistent-keepalive", "2")
            } else {
                try pair.machine.shell(
                    "wg set \(pair.link) peer \(pair.keys.publicKey.base64) persistent-keepalive 2")
            }
            func received() throws -> Int { try isDaemons ? pair.kernelPeer.received : pair.peer.received }
            // Wait until the passive keepalive that the pings may still cause has been sent.
            let quiet = try received()
            try eventually("keepalives have begun", within: .seconds(30)) { try received() >= quiet + 3 * 32 }
            let (before, began) = (try received(), ContinuousClock.now)
            try eventually("ten more have come", within: .seconds(60)) { try received() >= before + 10 * 32 }
            let took = ContinuousClock.now - began
            #expect(took > .seconds(16) && took < .seconds(30), "ten took \(took)")
        }

        @Test("Files of 32 MiB arrive whole over TCP, both ways and in both families")
        func transfers() throws {
            let pair = try KernelPeerPair()
            let folder = try TemporaryFolder()
            let file = "\(folder.path)/file"
            try pair.namespace.run("sh", "-c", "head -c 33554432 /dev/urandom > \(file)")
            let sum = try pair.namespace.run("sh", "-c", "sha256sum < \(file)").output
            for (index, other) in pair.kernelInner.enumerated() {
                let script = "nc -l -p \(7000 + index) | sha256sum"
                let receiver = try pair.machine.start(script)
                try pair.namespace.run(
                    "sh", "-c",
                    "for i in $(seq 100); do ncat --send-only \(other) \(7000 + index) < \(file) && exit; sleep 0.2; done; exit 1",
                    deadline: .seconds(300))
                let result = try VirtualMachine.result(of: receiver, script, deadline: .seconds(300))
                #expect(result.output == sum)
            }
            try pair.machine.shell("head -c 33554432 /dev/urandom > /tmp/file", deadline: .seconds(120))
            let sumThere = try pair.machine.shell("sha256sum < /tmp/file")
            for (index, other) in pair.kernelInner.enumerated() {
                let script = "nc -l -p \(7010 + index) < /tmp/file"
                let sender = try pair.machine.start(script)
                try pair.namespace.run(
                    "sh", "-c",
                    "for i in $(seq 100); do ncat --recv-only \(other) \(7010 + index) > \(file) && exit; sleep 0.2; done; exit 1",
                    deadline: .seconds(300))
                _ = try VirtualMachine.result(of: sender, script, deadline: .seconds(60))
                #expect(try pair.namespace.run("sh", "-c", "sha256sum < \(file)").output == sumThere)
            }
            try pair.machine.shell("rm /tmp/file")
        }

        @Test("Crossing handshakes lose no packet, whichever one wins")
        func crossing() throws {
            let pair = try KernelPeerPair()
            // An initiation that the daemon sends up to 100 ms after the kernel's is certain to cross it.
            try pair.machine.shell("tc qdisc add dev data root netem delay 100ms limit 100000")
            defer { _ = try? pair.machine.attempt("tc qdisc del dev data root") }
            for round in 0..<12 {
                try pair.startAnew()
                let script = "ping -n -q -i 0.05 -c 60 -W 20 \(pair.inner[0])"
                let there = try pair.machine.start(script)
                try pair.ping(pair.kernelInner[0], "-i 0.05 -c \(54 + round) -W 20")
                try KernelPeerPair.expectWhole(
                    try VirtualMachine.result(of: there, script, deadline: .seconds(60)))
            }
        }

        @Test("Two changes of keys under traffic, and a pause of three minutes, lose nothing")
        func rekey() throws {
            let ours = try KernelPeerPair(start: .daemon, hasPresharedKey: false)
            let theirs = try KernelPeerPair(.v6, start: .kernel)
            try theirs.pingFromKernel(theirs.inner[0], "-c 1 -W 20")
            let options = "-i 0.05 -c 5400 -W 5"
            let script = "ping -n -q \(options) \(theirs.inner[0])"
            let there = try theirs.machine.start(script)
            try ours.ping(ours.kernelInner[1], options, deadline: .seconds(400))
            try KernelPeerPair.expectWhole(
                try VirtualMachine.result(of: there, script, deadline: .seconds(400)))
            let before = try (ours.peer.latestHandshake, theirs.peer.latestHandshake)
            // Sessions expire in this time, so the test must wait.
            try ours.namespace.run("sleep", "185", deadline: .seconds(240))
            try ours.ping(ours.kernelInner[0], "-i 0.05 -c 20 -W 20")
            try theirs.pingFromKernel(theirs.inner[1], "-i 0.05 -c 20 -W 20")
            #expect(try ours.peer.latestHandshake > before.0)
            #expect(try theirs.peer.latestHandshake > before.1)
        }
    }
#endif
