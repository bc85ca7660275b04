// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Reads the output of `perf script` and `perf stat`, which print what `perf record` and the kernel's counters recorded.
enum PerfScript {
    /// A function on the stack.
    struct Frame: Equatable {
        var symbol: Substring
        /// The program or library that contains the function.
        var object: Substring
        /// Whether the kernel ran the function.
        var isKernel: Bool
    }

    /// The state of one processor at one moment.
    struct Sample {
        var command: Substring
        /// The process identifier in the namespace of the recorder, where a process outside has 0.
        var process: Int
        /// The time that the sample stands for, in nanoseconds.
        var nanoseconds: Int
        /// The stack, the innermost function first.
        var frames: [Frame]
    }

    /// One hit of a tracepoint.
    struct Event {
        var command: Substring
        var process: Int
        /// The name with its group, as in `sched:sched_switch`.
        var name: Substring
        /// The fields of the tracepoint, as its format prints them.
        var text: Substring

        /// The value of a field that the text holds as `name=value`.
        func field(_ name: String) -> Substring? {
            for word in text.split(separator: " ") where word.hasPrefix(name) {
                let rest = word.dropFirst(name.count)
                if rest.first == "=" { return rest.dropFirst() }
            }
            return nil
        }
    }

    /// The fields of a sample, in the order that ``samples(_:)`` reads.
    static let sampleFields = "comm,pid,period,ip,sym,dso"
    /// The fields of an event, in the order that ``events(_:)`` reads.
    static let eventFields = "trace:comm,pid,event,trace"

    /// Reads samples: a line for each, and below it an indented line for each function of its stack.
    /// - Throws: ``BenchmarkError`` with the first line that has another form.
    static func samples(_ text: String) throws -> [Sample] {
        var samples: [Sample] = []
        for line in text.split(separator: "\n") where line.contains(where: { $0 != " " }) {
            if line.utf8.first == UInt8(ascii: "\t") {
                guard !samples.isEmpty, let frame = frame(line.dropFirst()) else { throw unreadable(line) }
                samples[samples.count - 1].frames.append(frame)
                continue
            }
            let words = line.split(separator: " ")
            guard words.count >= 3, let time = Int(words[words.count - 1]), let process = Int(words[words.count - 2])
            else { throw unreadable(line) }
            samples.append(
                Sample(
                    command: line[words[0].startIndex..<words[words.count - 3].endIndex], process: process,
                    nanoseconds: time, frames: []))
        }
        return samples
    }

    /// Reads a line such as `ffffffff81db747a tun_get_user ([kernel.kallsyms])`. A symbol may hold spaces and parentheses.
    private static func frame(_ line: Substring) -> Frame? {
        let start = line.drop { $0 == " " }
        guard let end = start.firstIndex(of: " "), start.last == ")" else { return nil }
        let address = start[..<end]
        let rest = start[start.index(after: end)...].dropLast()
        guard let opening = rest.lastIndex(of: "("), opening > rest.startIndex else { return nil }
        return Frame(
            symbol: rest[..<rest.index(before: opening)], object: rest[rest.index(after: opening)...],
            // On 64-bit x86 and Arm, the kernel has the upper half of the address space.
            isKernel: address.utf8.count == 16 && address.hasPrefix("ffff"))
    }

    /// Reads the events of tracepoints, a line for each.
    /// - Returns: the events, and the number that the recorder had no room for.
    /// - Throws: ``BenchmarkError`` with the first line that has another form.
    static func events(_ text: String) throws -> (events: [Event], lost: Int) {
        var events: [Event] = []
        var lost = 0
        for line in text.split(separator: "\n") {
            // A command may hold spaces, so the first number in front of a name with a colon is the process.
            let words = line.split(separator: " ", maxSplits: 12)
            if let mark = words.firstIndex(of: "PERF_RECORD_LOST") {
                guard let count = words.dropFirst(mark + 1).lazy.compactMap({ Int($0) }).first else {
                    throw unreadable(line)
                }
                lost += count
                continue
            }
            guard
                let index = words.indices.dropFirst(2).first(where: {
                    words[$0].last == ":" && words[$0].dropLast().contains(":") && Int(words[$0 - 1]) != nil
                }), let process = Int(words[index - 1])
            else { throw unreadable(line) }
            events.append(
                Event(
                    command: line[words[0].startIndex..<words[index - 2].endIndex], process: process,
                    name: words[index].dropLast(), text: line[words[index].endIndex...]))
        }
        return (events, lost)
    }

    /// Reads the table that `perf stat -x,` writes: the value of each event that the machine counts.
    static func counters(_ text: String) -> [String: Double] {
        var counters: [String: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let fields = line.split(separator: ",", omittingEmptySubsequences: false)
            // An event that the machine does not count has `<not supported>` in place of its value.
            guard fields.count > 2, let value = Double(fields[0]), let name = fields[2].split(separator: ":").first
            else { continue }
            counters[String(name)] = value
        }
        return counters
    }

    private static func unreadable(_ line: Substring) -> BenchmarkError {
        BenchmarkError("perf script printed a line of another form: '\(line)'")
    }
}
