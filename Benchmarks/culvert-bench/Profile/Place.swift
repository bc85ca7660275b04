// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The part of the machine that does some work.
enum Place: String, CaseIterable {
    case sender = "Sending daemon"
    case receiver = "Receiving daemon"
    case loadSender = "Load generator, sending"
    case loadReceiver = "Load generator, receiving"
    case kernelThreads = "Kernel threads"
    /// Interrupts and wake-ups of a processor that had nothing to do.
    case idleLoop = "Idle processors"
    case others = "Other processes"
}

/// The processes of a transfer, by which its samples and events are assigned to places.
struct Roles {
    var sender: Int
    var receiver: Int
    /// The load generator's server. Its client has the same command and another identifier.
    var loadReceiver: Int
    var loadCommand: String

    /// The place of a process, or `nil` for one that has no role.
    func place(process: Int, command: Substring) -> Place? {
        switch process {
        case sender: .sender
        case receiver: .receiver
        case loadReceiver: .loadReceiver
        case 1... where command == loadCommand: .loadSender
        default: nil
        }
    }

    func place(of sample: PerfScript.Sample) -> Place {
        if let place = place(process: sample.process, command: sample.command) { return place }
        // A recorder in a namespace sees processes outside under the number 0 and a wrong name: the stack decides.
        for frame in sample.frames.reversed() where frame.isKernel {
            if frame.symbol.hasPrefix("do_idle") || frame.symbol.hasPrefix("cpu_startup_entry") { return .idleLoop }
            if frame.symbol.hasPrefix("kthread") || frame.symbol.hasPrefix("ret_from_fork") { return .kernelThreads }
        }
        return .others
    }
}
