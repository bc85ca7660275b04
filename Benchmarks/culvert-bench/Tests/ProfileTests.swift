// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@Suite("Profile of a transfer")
struct ProfileTests {
    private let roles = Roles(sender: 29, receiver: 38, loadReceiver: 47, loadCommand: "iperf3")
    private let devices = EventCounts.Devices(senderTun: "cb7xa", receiverTun: "cb7xb", wire: "under")

    @Test("Each sample of a recording belongs to its place and its kind of work")
    func classification() throws {
        let samples = try PerfScript.samples(Recording.samples)
        #expect(
            samples.map(roles.place(of:)) == [
                .sender, .sender, .receiver, .loadSender, .idleLoop, .kernelThreads, .loadReceiver, .others,
            ])
        #expect(
            samples.map { Work(stack: $0.frames) } == [
                .aead, .send, .wakeUps, .softInterrupts, .idle, .softInterrupts, .kernelCopies, .ownCode,
            ])
    }

    @Test(
        "The innermost function that names a kind of work decides",
        arguments: [
            (["do_syscall_64", "entry_SYSCALL_64_after_hwframe"], Work.callEntry),
            (["vfs_read", "ksys_read", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"], .read),
            (["tun_get_user", "do_writev", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"], .write),
            (["do_epoll_wait", "__x64_sys_epoll_wait", "do_syscall_64", "entry_SYSCALL_64"], .poll),
            (["core_sys_select", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"], .poll),
            (["udp_recvmsg", "__sys_recvmmsg", "invoke_syscall.constprop.0", "el0_svc", "el0t_64_sync"], .receive),
            (["ksys_ioctl", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"], .otherCalls),
            (["__schedule", "schedule", "do_epoll_wait", "do_syscall_64", "entry_SYSCALL_64"], .scheduler),
            (["tcp_v4_rcv", "handle_softirqs", "__irq_exit_rcu", "asm_sysvec_apic_timer_interrupt"], .softInterrupts),
            (["ktime_get", "sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt"], .interrupts),
            (["clear_page_erms", "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"], .pageFaults),
            (["csum_partial", "ksys_write", "do_syscall_64"], .checksums),
            (["worker_thread", "kthread", "ret_from_fork"], .otherKernel),
        ])
    func kernelWork(symbols: [String], work: Work) {
        #expect(Work(stack: symbols.map { PerfScript.Frame(symbol: $0[...], object: "", isKernel: true) }) == work)
    }

    @Test(
        "AEAD is recognised in all contenders",
        arguments: [
            ("CCryptoBoringSSL_chacha20_poly1305_open_avx2", "/opt/culvert-wg", Work.aead),
            ("chacha20poly1305.chacha20Poly1305Seal", "/usr/bin/wireguard-go", .aead),
            ("aes_helper", "/usr/lib/libIPSec_MB.so.1", .aead),
            ("__memmove_avx_unaligned_erms", "/usr/lib/libc.so.6", .programCopies),
            ("superframe", "/opt/baseline", .ownCode),
        ])
    func programWork(symbol: String, object: String, work: Work) {
        #expect(Work(stack: [.init(symbol: symbol[...], object: object[...], isKernel: false)]) == work)
    }

    @Test("Times are per gigabyte, and the machine's total has no other processes")
    func times() throws {
        let profile = TimeProfile(try PerfScript.samples(Recording.samples), roles)
        let figures = profile.figures(gigabytes: 0.5)
        let sample = 0.002_002_002
        #expect(abs(value("Sending daemon: total", figures) - 2 * sample) < 1e-9)
        #expect(abs(value("Sending daemon: AEAD", figures) - sample) < 1e-9)
        #expect(abs(value("Whole machine: soft interrupts", figures) - 2 * sample) < 1e-9)
        // Eight samples, without the idle one and that of another process.
        #expect(abs(value("Whole machine: total", figures) - 6 * sample) < 1e-9)
        #expect(abs(value("Whole machine: idle", figures) - 12.5) < 1e-9)
        #expect(abs(value("Whole machine: other processes", figures) - 12.5) < 1e-9)
    }

    @Test("Calls, switches and packets are counted by place")
    func counts() throws {
        let counts = EventCounts(try PerfScript.events(Recording.events).events, roles, devices)
        #expect(counts.calls[.receiver]?[.receive] == .init(count: 2, failed: 1))
        #expect(counts.calls[.receiver]?[.poll] == .init(count: 1, failed: 0))
        #expect(counts.preemptions == [.receiver: 1])
        #expect(counts.waits == [.sender: 1])
        #expect(counts.switches == 3)
        #expect(counts.wakeUps == 1)
        #expect(counts.netReceiveInterrupts == 1)
        #expect(
            counts.packets == [
                .readBySender: .init(count: 1, bytes: 64_348, segments: 47),
                .sentByReceiver: .init(count: 1, bytes: 810, segments: 8),
                .writtenByReceiver: .init(count: 1, bytes: 5_524, segments: 1),
            ])
        let figures = counts.figures(gigabytes: 0.5)
        #expect(value("Receiving daemon: receive calls", figures) == 4)
        #expect(value("Receiving daemon: receive calls that failed", figures) == 2)
        #expect(value("\(EventCounts.Point.readBySender.rawValue): mean size", figures) == 64_348)
    }

    @Test("The page compares the first contender with each other one, and leaves out small rows")
    func page() {
        var table = ProfileTable(contenders: ["culvert-wg", "C baseline"])
        for round in [0.0, 1] {
            for (name, seconds) in [("culvert-wg", 1.5), ("C baseline", 1.25)] {
                table.add(
                    name,
                    [
                        .init("Sending daemon", "AEAD", .secondsPerGigabyte, seconds + round),
                        .init("Sending daemon", "futex", .secondsPerGigabyte, 0.001),
                        .init("Sending daemon", "poll", .secondsPerGigabyte, 0),
                        .init("Sending daemon", "read calls", .perGigabyte, 200),
                    ])
            }
        }
        #expect(table.rows.count == 6)
        let text = ProfilePage.text(origin: "One machine.", rows: table.rows)
        #expect(text.contains("| Sending daemon | culvert-wg | C baseline | more than C baseline |"))
        #expect(text.contains("| AEAD, s/GB | 2.00 [1.50-2.50] | 1.75 [1.25-2.25] | +0.250 |"))
        #expect(text.contains("| read calls, /GB | 200 | 200 | 0 |"))
        #expect(!text.contains("futex"))
        #expect(!text.contains("poll"))
    }

    private func value(_ title: String, _ figures: [ProfileFigure]) -> Double {
        figures.first { $0.title == title }?.value ?? .nan
    }
}
