// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The kernel's figures about processes and the machine.
enum ProcessFigures {
    private static let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))

    /// The CPU time of a process so far, in seconds; zero after its end.
    static func processorTime(of process: Process) -> Double {
        guard let text = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8),
            // The program's name may hold spaces; the fields that are wanted are the 14th and 15th.
            let fields = text.split(separator: ")").last?.split(separator: " "), fields.count > 12,
            let user = Double(fields[11]), let system = Double(fields[12])
        else { return 0 }
        return (user + system) / ticksPerSecond
    }

    /// The CPU time of everything on this machine so far, in seconds.
    static var machineTime: Double {
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            let line = text.split(separator: "\n").first
        else { return 0 }
        // user nice system idle iowait irq softirq
        let fields = line.split(separator: " ").dropFirst().prefix(7).compactMap { Double($0) }
        guard fields.count == 7 else { return 0 }
        return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / ticksPerSecond
    }

    /// A field of `/proc/PID/status` in MiB; not a number after the process's end.
    static func memory(of process: Process, _ field: String) -> Double {
        let path = "/proc/\(process.processIdentifier)/status"
        guard let text = try? String(contentsOfFile: path, encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix(field + ":") }),
            let kilobytes = Double(line.dropFirst(field.count + 1).filter(\.isNumber))
        else { return .nan }
        return kilobytes / 1024
    }
}
