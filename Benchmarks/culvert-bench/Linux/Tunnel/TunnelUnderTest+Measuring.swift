// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

extension TunnelUnderTest {
    /// The task of iperf3.
    enum Traffic {
        case tcp(streams: Int)
        /// One TCP stream in each direction at the same time.
        case bothWays
        /// An unpaced sender of datagrams of this size in bytes.
        case udp(Int)

        /// Linux's default, regardless of this machine's setting, so that figures of two machines are comparable.
        private static let congestionControl = ["-C", "cubic"]

        var words: [String] {
            switch self {
            case .tcp(let streams): Self.congestionControl + (streams == 1 ? [] : ["-P", String(streams)])
            case .bothWays: Self.congestionControl + ["--bidir"]
            case .udp(let byteCount): ["-u", "-b", "0", "-l", String(byteCount)]
            }
        }
    }

    struct Transfer {
        /// Gbit/s that arrived, both ways together.
        var received: Double
        /// Of UDP, the part that did not arrive, in percent.
        var lost: Double
        /// CPU time of the daemon at each end for a gigabyte that arrived, in seconds.
        var ends: [Double]
        /// CPU time of the whole machine for a gigabyte that arrived, in seconds.
        var machine: Double
        /// TCP segments for a gigabyte that arrived: those that the receiver had to keep until an earlier one arrived, and
        /// those that the sender sent again.
        var reordered: Double
        var resent: Double
        /// The data that arrived, in GB.
        var gigabytes: Double
    }

    /// - Parameter recorder: the words of a command that runs the load as its own last words.
    func transfer(_ traffic: Traffic, seconds: Int, under recorder: [String] = []) throws -> Transfer {
        let words =
            recorder + pair.enter(0) + ["iperf3", "-c", NamespacePair.inside[1], "-t", String(seconds), "-J"]
        let queuedBefore = segmentsOutOfOrder
        let before = daemons.map { ProcessFigures.processorTime(of: $0) }
        let machineBefore = ProcessFigures.machineTime
        let text = try Shell.run(words + traffic.words, timeout: Double(seconds) + 15)
        let used = zip(daemons, before).map { ProcessFigures.processorTime(of: $0) - $1 }
        let machine = ProcessFigures.machineTime - machineBefore
        let queued = segmentsOutOfOrder - queuedBefore
        let result = try Self.read(text)
        let gigabytes = result.received * result.seconds / 8
        return Transfer(
            received: result.received, lost: result.lost,
            ends: used.map { gigabytes > 0 ? $0 / gigabytes : .nan },
            machine: gigabytes > 0 ? machine / gigabytes : .nan,
            reordered: gigabytes > 0 ? queued / gigabytes : .nan,
            resent: gigabytes > 0 ? result.resent / gigabytes : .nan, gigabytes: gigabytes)
    }

    /// The TCP segments that side 1 has kept so far until an earlier one arrived; not a number if the kernel does not count
    /// them.
    private var segmentsOutOfOrder: Double {
        guard let text = try? Shell.run(pair.enter(1) + ["cat", "/proc/net/netstat"]) else { return .nan }
        // One line with the names, and one with the values.
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("TcpExt:") }.map { $0.split(separator: " ") }
        guard lines.count == 2, let place = lines[0].firstIndex(of: "TCPOFOQueue"), lines[1].indices.contains(place)
        else { return .nan }
        return Double(lines[1][place]) ?? .nan
    }

    /// Reads iperf3's result: received Gbit/s, seconds, the lost share of UDP, and the segments of TCP that were sent again.
    static func read(_ text: String) throws -> (received: Double, seconds: Double, lost: Double, resent: Double) {
        guard let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any],
            let end = document["end"] as? [String: Any]
        else { throw BenchmarkError("iperf3 gave no result") }
        func number(_ sum: String, _ field: String) -> Double? {
            ((end[sum] as? [String: Any])?[field] as? NSNumber)?.doubleValue
        }
        // The received figures of UDP are in `sum` if there is no `sum_received`.
        let name = end["sum_received"] == nil ? "sum" : "sum_received"
        guard let rate = number(name, "bits_per_second"), let seconds = number(name, "seconds"), seconds > 0 else {
            throw BenchmarkError("iperf3 gave no sum")
        }
        let lost = number("sum", "lost_percent") ?? 0
        let forward = name == "sum" ? rate * (1 - lost / 100) : rate
        let back = number("sum_received_bidir_reverse", "bits_per_second") ?? 0
        return ((forward + back) / 1e9, seconds, lost, number("sum_sent", "retransmits") ?? .nan)
    }

    /// Datagrams of `byteCount` bytes per second that arrive from a sender that does not wait, in millions; and the part
    /// of the sent ones that does not arrive, in percent.
    func packets(byteCount: Int, seconds: Int) throws -> (rate: Double, lost: Double) {
        let port = "5301"
        let counter = Pipe()
        let receiver = try Shell.start(
            pair.enter(1) + [Program.path, UDPCount.command, port, String(seconds)], output: counter,
            errors: FileHandle.standardError)
        defer { if receiver.isRunning { receiver.terminate() } }
        // Its first line says that it listens.
        _ = counter.fileHandleForReading.availableData
        let sentText = try Shell.run(
            pair.enter(0) + [
                Program.path, UDPFlood.command, NamespacePair.inside[1], port, String(byteCount), String(seconds),
            ], timeout: Double(seconds) + 15)
        let text = String(decoding: counter.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        receiver.waitUntilExit()
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count >= 2, let count = Double(words[words.count - 2]), let time = Double(words[words.count - 1]),
            let sent = Double(sentText.trimmingCharacters(in: .whitespacesAndNewlines)), sent > 0, time > 0
        else { throw BenchmarkError("the packets were not counted: '\(text)', '\(sentText)'") }
        return (count / time / 1e6, 100 * max(0, 1 - count / sent))
    }

    /// Round-trip times in milliseconds, each reply's own, in ascending order.
    func roundTrips(count: Int, interval: Double) throws -> [Double] {
        let text = try Shell.run(
            pair.enter(0) + [
                "ping", "-n", "-i", String(interval), "-c", String(count), "-W", "1", NamespacePair.inside[1],
            ], timeout: Double(count) * (interval + 0.05) + 20)
        let times = text.split(separator: "\n").compactMap { line -> Double? in
            guard let start = line.range(of: "time=") else { return nil }
            return Double(line[start.upperBound...].prefix { $0.isNumber || $0 == "." })
        }
        guard times.count > count / 2 else { throw BenchmarkError("\(name): only \(times.count) of \(count) pings") }
        return times.sorted()
    }

    /// Measures round trips while one TCP stream runs.
    func roundTripsUnderLoad(count: Int, interval: Double) throws -> [Double] {
        let seconds = Int((Double(count) * interval).rounded(.up)) + 1
        let load = try Shell.start(
            pair.enter(0) + ["iperf3", "-c", NamespacePair.inside[1], "-t", String(seconds)]
                + Traffic.tcp(streams: 1).words)
        defer {
            for _ in 0..<(100 * (seconds + 5)) where load.isRunning { usleep(10_000) }
            WireGuardDaemon.stop([load])
        }
        usleep(500_000)
        return try roundTrips(count: count, interval: interval)
    }

    /// Present resident memory of the larger daemon, in MiB.
    var residentMemory: Double { daemons.map { ProcessFigures.memory(of: $0, "VmRSS") }.max() ?? .nan }
    /// The peak resident memory of the larger daemon, in MiB.
    var peakMemory: Double { daemons.map { ProcessFigures.memory(of: $0, "VmHWM") }.max() ?? .nan }
}
