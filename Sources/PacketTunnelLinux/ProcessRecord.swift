// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The state of a process from proc_pid_stat(5) and proc_pid_status(5).
struct ProcessRecord: Hashable {
    /// The start time in ticks since boot.
    var startTime: UInt64
    /// Whether the process executes no more code, because it was killed or is about to end.
    var isEnding: Bool
    /// Whether it was stopped, by a signal or a debugger.
    var isStopped: Bool
    /// Whether it has ended but its parent has not reaped it.
    var isZombie: Bool

    /// - Returns: `nil` if the process does not exist.
    static func read(_ process: Int32) -> ProcessRecord? {
        func file(_ name: String) -> [UInt8]? { (try? SmallFile.read("/proc/\(process)/\(name)")) ?? nil }
        // Keep this order: by the second read, a thread that has received a signal has marked the process.
        guard let status = file("status"), let stat = file("stat") else { return nil }
        return ProcessRecord(stat: stat, status: status)
    }

    /// Reads the fields 3, 9 and 22 of `stat`, and the pending signals of `status`. Field 2 is a name in parentheses
    /// that may contain any character. A signal to the whole process stays pending until the process ends. Some systems
    /// do not list pending signals.
    init?(stat: [UInt8], status: [UInt8]) {
        guard let end = stat.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = stat[(end + 1)...].split(separator: UInt8(ascii: " "))
        func number(_ field: Int) -> UInt64? {
            field - 3 < fields.count ? UInt64(String(decoding: fields[field - 3], as: UTF8.self)) : nil
        }
        let lines = status.split(separator: UInt8(ascii: "\n"))
        func hasKill(_ name: String) -> Bool {
            lines.first { $0.starts(with: name.utf8) }
                .flatMap { UInt64(String(decoding: $0.dropFirst(name.utf8.count), as: UTF8.self), radix: 16) }
                .map { $0 & Self.kill != 0 } ?? false
        }
        guard let state = fields.first?.first, let flags = number(9), let startTime = number(22) else { return nil }
        self.startTime = startTime
        isStopped = "Tt".utf8.contains(state)
        isZombie = "ZXx".utf8.contains(state)
        isEnding = isZombie || flags & Self.ending != 0 || hasKill("SigPnd:\t") || hasKill("ShdPnd:\t")
    }

    /// `PF_EXITING` and `PF_SIGNALED` of the kernel's `linux/sched.h`.
    private static let ending: UInt64 = 0x4 | 0x400
    /// SIGKILL in the mask of pending signals.
    private static let kill: UInt64 = 1 << 8
}
