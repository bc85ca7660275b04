// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A kind of work that a processor does for a transfer. Each sample belongs to one kind.
enum Work: String, CaseIterable {
    case aead = "AEAD"
    case ownCode = "own code"
    case programCopies = "copies in the program"
    case read, write, send, receive, poll, futex
    case otherCalls = "other system calls"
    case callEntry = "entry and exit of system calls"
    case kernelCopies = "copies in the kernel"
    case checksums = "checksums in the kernel"
    case wakeUps = "wake-ups"
    case scheduler = "scheduler"
    case softInterrupts = "soft interrupts"
    case interrupts = "interrupts"
    case pageFaults = "page faults"
    case otherKernel = "other kernel code"
    /// The processor had nothing to do.
    case idle = "idle"

    /// The kinds that take time.
    static let busy = allCases.filter { $0 != .idle }

    /// The system calls of each kind, by their names without a prefix.
    private static let calls: [(work: Work, names: Set<Substring>)] = [
        (.read, ["read", "readv", "pread64", "preadv", "preadv2"]),
        (.write, ["write", "writev", "pwrite64", "pwritev", "pwritev2"]),
        (.send, ["sendto", "sendmsg", "sendmmsg"]),
        (.receive, ["recvfrom", "recvmsg", "recvmmsg"]),
        (.poll, ["poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6"]),
        (.futex, ["futex"]),
    ]

    /// The names of the system calls that have their own kind.
    static let callNames: [String] = calls.flatMap { $0.names.map(String.init) }.sorted()

    /// The kind of a system call.
    init(call name: Substring) {
        self = Self.calls.first { $0.names.contains(name) }?.work ?? .otherCalls
    }

    /// The kind of a sample, by its stack.
    ///
    /// In the kernel the innermost function that names a kind decides. For example, the wake-up of a reader during a soft
    /// interrupt during a `sendmsg` is a wake-up. The rest of that soft interrupt is not part of the system call.
    init(stack frames: [PerfScript.Frame]) {
        let kernel = frames.prefix { $0.isKernel }
        guard let leaf = kernel.first else {
            self = frames.first.map(Self.inProgram) ?? .ownCode
            return
        }
        let name = Self.plain(leaf.symbol)
        if Self.isCopy(name) {
            self = .kernelCopies
        } else if name.hasPrefix("csum_") || name == "do_csum" {
            self = .checksums
        } else if let work = kernel.lazy.compactMap({ Self.marked(Self.plain($0.symbol)) }).first {
            self = work
        } else {
            self = Self.call(kernel)
        }
    }

    /// The kind of a sample in a program or a library, by its innermost function.
    private static func inProgram(_ frame: PerfScript.Frame) -> Work {
        let name = frame.symbol.lowercased()
        let isAEAD =
            ["chacha20", "poly1305", "evp_aead"].contains { name.contains($0) } || frame.object.contains("IPSec_MB")
        if isAEAD { return .aead }
        return ["memcpy", "memmove", "memset"].contains { name.contains($0) } ? .programCopies : .ownCode
    }

    /// A symbol without the suffix of the compiler, as in `do_poll.constprop.0`.
    private static func plain(_ symbol: Substring) -> Substring { symbol.prefix { $0 != "." } }

    private static func isCopy(_ name: Substring) -> Bool {
        [
            "_copy_from_iter", "_copy_to_iter", "copy_page_", "copy_user", "rep_movs", "memcpy", "__memcpy", "memmove",
            "__memmove", "_copy_from_user", "_copy_to_user", "__arch_copy_", "skb_copy_bits", "csum_and_copy",
            "csum_partial_copy",
        ].contains { name.hasPrefix($0) }
    }

    /// The first parts of the names of functions whose work has one kind, for any caller.
    private static let marks: [(work: Work, prefixes: [String])] = [
        (
            .wakeUps,
            [
                "try_to_wake_up", "ttwu_", "wake_up", "__wake_up", "ep_poll_callback", "ep_autoremove_wake", "pollwake",
                "default_wake_function", "autoremove_wake", "sock_def_readable", "sock_def_write_space",
                "swake_up", "rcuwait_wake",
            ]
        ),
        (
            .scheduler,
            [
                "schedule", "__schedule", "preempt_schedule", "finish_task_switch", "sched_yield", "__cond_resched",
                "sched_tick", "sched_balance",
            ]
        ),
        (.softInterrupts, ["handle_softirqs", "__do_softirq", "do_softirq", "run_ksoftirqd", "net_rx_action"]),
        (.pageFaults, ["asm_exc_page_fault", "exc_page_fault", "do_page_fault", "el0_da", "el0_ia", "do_mem_abort"]),
        (
            .interrupts,
            [
                "asm_sysvec_", "sysvec_", "asm_common_interrupt", "common_interrupt", "irqentry_", "el1_interrupt",
                "el0_interrupt", "el1h_64_irq", "el0t_64_irq", "irq_exit", "__irq_exit",
            ]
        ),
        // These are functions of the idle loop, at its innermost and outermost.
        (
            .idle,
            [
                "default_idle", "pv_native_safe_halt", "native_safe_halt", "acpi_safe_halt", "mwait_idle", "intel_idle",
                "cpuidle_enter", "default_enter_idle", "arch_cpu_idle", "cpu_do_idle", "poll_idle",
            ]
        ),
        (.scheduler, ["do_idle", "cpu_startup_entry"]),
    ]

    private static func marked(_ name: Substring) -> Work? {
        marks.first { $0.prefixes.contains { name.hasPrefix($0) } }?.work
    }

    /// The functions through which each system call enters and leaves the kernel, on 64-bit x86 and Arm.
    private static let entries = [
        "entry_SYSCALL", "do_syscall_64", "x64_sys_call", "syscall_", "__x64_sys_", "exit_to_user_mode", "el0t_64_sync",
        "el0_svc", "do_el0_svc", "invoke_syscall", "__arm64_sys_", "arm64_exit_to_user",
    ]

    /// The kind of the system call that the kernel ran.
    private static func call(_ kernel: ArraySlice<PerfScript.Frame>) -> Work {
        let names = kernel.reversed().map { plain($0.symbol) }
        // Some kernels show the entry of the call itself, as on Arm. On x86 it may be inlined; then the next function is used.
        for prefix in ["__x64_sys_", "__arm64_sys_"] {
            if let entry = names.first(where: { $0.hasPrefix(prefix) }) {
                return Work(call: entry.dropFirst(prefix.count))
            }
        }
        guard let first = names.first, entries.contains(where: { first.hasPrefix($0) }) else { return .otherKernel }
        guard let inside = names.first(where: { name in !entries.contains { name.hasPrefix($0) } }) else {
            return .callEntry
        }
        if inside.hasSuffix("_select") { return .poll }
        let prefix = ["ksys_", "__sys_", "do_sys_", "__do_sys_", "__se_sys_", "do_"].first { inside.hasPrefix($0) }
        return Work(call: inside.dropFirst(prefix?.count ?? 0))
    }
}
