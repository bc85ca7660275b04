// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Records the whole machine with `perf` while another command runs.
enum PerfRecorder {
    /// Samples per second and processor: not a divisor of the periods of common timers.
    static let frequency = 999

    /// Quiet, all processors, no table of programs, and room for bursts.
    private static let record = ["perf", "record", "-q", "-a", "-B", "-N", "-m", "16M"]

    /// - Throws: ``BenchmarkError`` that names the package if `perf` is missing or is not for this kernel.
    static func require() throws {
        // On Ubuntu a script of this name exists without the package.
        guard Tools.find("perf") != nil, (try? Shell.run(["perf", "--version"])) != nil else {
            throw BenchmarkError(
                "perf is missing: install the package linux-perf (Debian) or linux-tools-generic (Ubuntu)")
        }
    }

    /// The words before a command that is sampled.
    static func sampling(into file: String) -> [String] {
        record + ["-o", file, "-F", String(frequency), "-e", "cpu-clock", "-g", "--"]
    }

    /// The words before a command whose tracepoints are recorded.
    static func tracing(_ tracepoints: [String], into file: String) -> [String] {
        ["unshare", "--mount", "sh", "-c", traceScript, "trace", tracepoints.joined(separator: " "), file]
    }

    /// Makes tracepoints visible in its own mount namespace, and records those that this kernel has.
    private static let traceScript = """
        set -eu
        points=/sys/kernel/tracing/events events=
        [ -d "$points" ] || mount -t tracefs tracefs /sys/kernel/tracing
        for name in $1; do
            [ ! -d "$points/${name%%:*}/${name##*:}" ] || events=$events,$name
        done
        [ -n "$events" ] || { echo "this kernel has no tracepoints" >&2; exit 1; }
        file=$2
        shift 2
        exec \(record.joined(separator: " ")) -o "$file" -e "${events#,}" -- "$@"
        """

    static func samples(in file: String) throws -> [PerfScript.Sample] {
        // Finding inlined functions takes minutes.
        try PerfScript.samples(script(file, "--no-inline", "-F", PerfScript.sampleFields))
    }

    static func events(in file: String) throws -> (events: [PerfScript.Event], lost: Int) {
        try PerfScript.events(script(file, "--show-lost-events", "-F", PerfScript.eventFields))
    }

    private static func script(_ file: String, _ words: String...) throws -> String {
        try Shell.run(["perf", "script", "-i", file] + words, timeout: 300)
    }

    /// The events of the processor that count its work, if this machine has them; a virtual machine often has not.
    static func counters() -> [String] {
        guard let folder = try? TemporaryFolder() else { return [] }
        let file = folder.file("counters")
        let names = ["instructions", "cycles"]
        guard (try? Shell.run(counting(names, of: nil, into: file) + ["true"])) != nil,
            let text = try? String(contentsOfFile: file, encoding: .utf8)
        else { return [] }
        let counted = PerfScript.counters(text)
        return names.filter { counted[$0] != nil }
    }

    /// The words before a command during which the processors' events are counted: those of a process, or of all.
    static func counting(_ names: [String], of process: Int?, into file: String) -> [String] {
        ["perf", "stat", "-x", ",", "-o", file, "-e", names.joined(separator: ",")]
            + (process.map { ["-p", String($0)] } ?? ["-a"]) + ["--"]
    }
}

/// A folder that is removed with the last reference to it.
final class TemporaryFolder {
    private let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-bench-\(UUID())")
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func file(_ name: String) -> String { url.appendingPathComponent(name).path }
}
