// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Testing
import TunnelSystem

@testable import PacketTunnelLinux

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

@Suite("Small parts of the Linux host")
struct LinuxHostValuesTests {
    @Test("Sleep is what only one of the clocks counts, each time once")
    func sleep() {
        let second: Int64 = 1_000_000_000
        func clocks(_ boot: Int64, _ awake: Int64) -> SleepDetector.Clocks {
            SleepDetector.Clocks(boot: boot * second, awake: awake * second)
        }
        var detector = SleepDetector(clocks(100, 50))
        let readings = [
            (clocks(110, 60), false), (clocks(500, 61), true), (clocks(510, 71), false),
            // Reading the two takes a moment.
            (SleepDetector.Clocks(boot: 520 * second + 999_999_999, awake: 81 * second), false),
        ]
        for (reading, slept) in readings {
            let result = detector.slept(reading)
            #expect(result == slept)
        }
        let now = SleepDetector.Clocks.now
        #expect(now.boot >= now.awake - second && now.awake > 0)
    }

    @Test("The descriptor for changes of the wall clock exists, and is not readable without a change")
    func clockChanges() throws {
        let changes = try #require(ClockChanges())
        var entry = pollfd(fd: changes.descriptor.number, events: Int16(POLLIN), revents: 0)
        let count = unsafe poll(&entry, 1, 0)
        #expect(count == 0)
        changes.clear()
    }

    @Test(
        "The server's address is read with and without a port",
        arguments: [
            ("192.0.2.1", "192.0.2.1"), ("192.0.2.1:51820", "192.0.2.1"), ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:51820", "2001:db8::1"), ("[2001:db8::1]", "2001:db8::1"), ("vpn.example.org", nil),
            ("vpn.example.org:51820", nil), ("", nil), (":", nil), ("[", nil), ("]", nil), ("[]:1", nil),
        ] as [(String, String?)])
    func server(_ text: String, _ address: String?) {
        #expect(ServerText.address(in: text)?.description == address)
    }

    @Test("Errors say what to do, and keep their kind on the way to the app")
    func errors() {
        let forbidden = LinuxNetworkError(.netlink(operation: "make a route"), errno: EPERM)
        #expect(forbidden.description.contains("cannot make a route: Operation not permitted"))
        #expect(forbidden.description.hasSuffix("run as root or with CAP_NET_ADMIN"))
        let error = TunnelError(forbidden)
        #expect(error.code == .permissionDenied)
        #expect(error.fix == "run as root or with CAP_NET_ADMIN")
        #expect(TunnelError(LinuxNetworkError(.noResolverManager)).code == .settingsFailed)
        let unmanaged = TunnelError(LinuxNetworkError(.noResolverManager)).fix
        #expect(unmanaged.contains("openresolv") && unmanaged.contains("culvert up --no-dns"))
        let running = LinuxNetworkError(.tunnelRunning(name: "a", processID: 7))
        #expect(running.description == "tunnel 'a' is running as process 7; stop it first")
        #expect(TunnelError(running).code == .alreadyRunning)
        #expect(LinuxNetworkError(.programMissing(name: "nft")).description.contains("install nftables"))
        #expect(LinuxNetworkError(.incompleteUndo(steps: ["x"])).description.contains("culvert cleanup"))
        // The same error number has other advice for a lock.
        let noThread = LinuxNetworkError(.netlink(operation: LinuxNetworkError.threadStart), errno: EAGAIN)
        #expect(
            noThread.description.hasSuffix("raise the limits of processes, threads and memory that this process has"))
    }

    @Test("A kernel without nf_tables refuses the table against spoofed packets, and the error does not name nft")
    func refusedTable() throws {
        let error = try #require(throws: LinuxNetworkError.self) {
            try FirewallSocket.load("culvert_cvt0", [], by: nil)
        }
        #expect(error.refusesTable)
        #expect(error.description.hasPrefix("cannot load the firewall table culvert_cvt0: "))
        #expect(error.description.hasSuffix("; the kernel was built without it or it is switched off"))
        // Without the module, without an expression of the table, and without permission.
        for number in [EOPNOTSUPP, EINVAL, ENOENT, EPERM, EACCES] {
            #expect(LinuxNetworkError(.netlink(operation: "load it"), errno: number).refusesTable)
        }
        // Another attempt may succeed, so the tunnel must not run without the table.
        for number in [EBUSY, EAGAIN, ENOBUFS, ENOMEM, EMFILE] {
            #expect(!LinuxNetworkError(.netlink(operation: "load it"), errno: number).refusesTable)
        }
        #expect(!LinuxNetworkError(.journal(path: "/run", operation: "write"), errno: EACCES).refusesTable)
        let strict = LinuxNetworkError(.strictReversePath(interface: "eth0")).description
        #expect(strict.contains("rp_filter is 1 (strict) on eth0, and the kernel refuses the firewall table"))
        #expect(!strict.contains("nft,") && !strict.contains("install"))
    }

    @Test("Name servers are read from resolv.conf as resolvers read it")
    func resolvConf() {
        let text =
            "# nameserver 1.1.1.1\nnameserver\t192.0.2.1 # one\n  nameserver 2001:db8::1\nsearch a\nnameserver\n"
        #expect(ResolvConf.servers(in: text) == ["192.0.2.1", "2001:db8::1"])
    }
}
