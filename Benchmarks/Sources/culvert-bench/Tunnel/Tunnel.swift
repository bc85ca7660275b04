// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import WireGuardCore

/// Two network namespaces with a wire between them, and a WireGuard daemon in each: the same for every daemon.
final class Tunnel {
    /// The daemon's name for tables.
    let name: String
    private let namespaces: [String]
    private let interfaces: [String]
    private var daemons: [Process] = []
    private var server: Process?

    static let addresses = ["10.7.0.1", "10.7.0.2"]
    private static let outside = ["192.0.2.1", "192.0.2.2"]

    /// - Parameter tag: makes names that no other tunnel of this process has.
    init(name: String, tag: String) {
        self.name = name
        namespaces = ["a", "b"].map { "cb\(getpid())\(tag)\($0)" }
        interfaces = ["a", "b"].map { "cb\(getpid() % 1_000_000)\(tag)\($0)" }
    }

    func start(daemon: String) throws {
        for namespace in namespaces {
            try Shell.run(["ip", "netns", "add", namespace])
            try Shell.run(["ip", "-n", namespace, "link", "set", "lo", "up"])
        }
        try Shell.run([
            "ip", "link", "add", "name", "under", "netns", namespaces[0], "type", "veth", "peer", "name", "under",
            "netns", namespaces[1],
        ])
        var random = SystemRandomNumberGenerator()
        let keys = [PrivateKey(using: &random), PrivateKey(using: &random)]
        for side in 0...1 {
            try Shell.run([
                "ip", "-n", namespaces[side], "address", "add", "\(Tunnel.outside[side])/24", "dev", "under",
            ])
            try Shell.run(["ip", "-n", namespaces[side], "link", "set", "under", "up"])
            daemons.append(
                try Shell.start(
                    inside(side) + [
                        "env", "WG_PROCESS_FOREGROUND=1", "LOG_LEVEL=error", daemon, "-f", interfaces[side],
                    ],
                    errors: FileHandle.standardError))
            try waitForSocket(side)
            try configure(side, own: keys[side], other: keys[1 - side])
        }
        server = try Shell.start(inside(1) + ["iperf3", "-s", "-f", "k"])
        try waitForTunnel()
    }

    private func inside(_ side: Int) -> [String] { ["ip", "netns", "exec", namespaces[side]] }

    private func waitForSocket(_ side: Int) throws {
        let path = "/var/run/wireguard/\(interfaces[side]).sock"
        for _ in 0..<100 {
            if FileManager.default.fileExists(atPath: path) { return }
            guard daemons[side].isRunning else { break }
            usleep(100_000)
        }
        throw BenchmarkError("\(name) does not serve \(path)")
    }

    private func configure(_ side: Int, own: PrivateKey, other: PrivateKey) throws {
        // Any engine knows the public key of its private one.
        var engine = Engine(random: SystemRandomNumberGenerator())
        engine.setPrivateKey(other)
        guard let publicKey = engine.publicKey else { throw BenchmarkError("no public key") }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(interfaces[side]).conf")
        let text = """
            [Interface]
            PrivateKey = \(own.exportedBase64)
            ListenPort = 51820
            [Peer]
            PublicKey = \(publicKey.base64)
            Endpoint = \(Tunnel.outside[1 - side]):51820
            AllowedIPs = \(Tunnel.addresses[1 - side])/32

            """
        guard
            FileManager.default.createFile(
                atPath: file.path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw BenchmarkError("cannot write \(file.path)") }
        defer { try? FileManager.default.removeItem(at: file) }
        try Shell.run(inside(side) + ["wg", "setconf", interfaces[side], file.path])
        let interface = interfaces[side]
        let namespace = namespaces[side]
        try Shell.run(["ip", "-n", namespace, "address", "add", "\(Tunnel.addresses[side])/24", "dev", interface])
        try Shell.run(["ip", "-n", namespace, "link", "set", interface, "mtu", "1420", "up"])
    }

    private func waitForTunnel() throws {
        for _ in 0..<10 where (try? Shell.run(inside(0) + ["ping", "-c", "1", "-W", "1", Tunnel.addresses[1]])) != nil {
            return
        }
        throw BenchmarkError("\(name): no packets come through")
    }

    /// Ends the daemons and removes the namespaces, whatever state they are in.
    func stop() {
        for process in [server].compactMap({ $0 }) + daemons where process.isRunning { process.terminate() }
        for process in daemons {
            for _ in 0..<30 where process.isRunning { usleep(100_000) }
            if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        }
        daemons = []
        server = nil
        for namespace in namespaces { _ = try? Shell.run(["ip", "netns", "delete", namespace]) }
    }

    // MARK: Measuring

    struct Transfer {
        /// Gbit/s that arrived.
        var received: Double
        /// Of UDP, the part that did not arrive, in percent.
        var lost: Double
        /// CPU time that both daemons took for a gigabyte that arrived, in seconds.
        var cost: Double
    }

    /// One stream with iperf3.
    func transfer(seconds: Int, udp: Bool = false, reverse: Bool = false) throws -> Transfer {
        var words = inside(0) + ["iperf3", "-c", Tunnel.addresses[1], "-t", String(seconds), "-J"]
        if udp { words += ["-u", "-b", "0", "-l", "1300"] }
        if reverse { words.append("-R") }
        let before = processorTime
        let text = try Shell.run(words, timeout: Double(seconds) + 15)
        let used = processorTime - before
        guard let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any],
            let end = document["end"] as? [String: Any]
        else { throw BenchmarkError("iperf3 gave no result") }
        // UDP's figures of what arrived are in `sum` where there is no `sum_received`.
        guard let sum = (end["sum_received"] ?? end["sum"]) as? [String: Any],
            let rate = (sum["bits_per_second"] as? NSNumber)?.doubleValue,
            let time = (sum["seconds"] as? NSNumber)?.doubleValue
        else { throw BenchmarkError("iperf3 gave no sum") }
        let lost = ((end["sum"] as? [String: Any])?["lost_percent"] as? NSNumber)?.doubleValue ?? 0
        let received = end["sum_received"] == nil ? rate * (1 - lost / 100) : rate
        let gigabytes = received * time / 8e9
        return Transfer(received: received / 1e9, lost: lost, cost: gigabytes > 0 ? used / gigabytes : .nan)
    }

    struct Ping {
        /// Percent.
        var lost: Double
        /// Milliseconds.
        var mean: Double
    }

    func ping(from side: Int, count: Int) throws -> Ping {
        let text = try Shell.run(
            inside(side) + ["ping", "-q", "-n", "-i", "0.002", "-c", String(count), Tunnel.addresses[1 - side]],
            timeout: Double(count) * 0.02 + 20)
        guard let loss = text.firstMatch(of: /([0-9.]+)% packet loss/), let lost = Double(loss.1),
            let times = text.firstMatch(of: /= [0-9.]+\/([0-9.]+)\//), let mean = Double(times.1)
        else { throw BenchmarkError("ping gave no result: \(text)") }
        return Ping(lost: lost, mean: mean)
    }

    /// The peak resident memory of the larger daemon so far, in MB.
    var peakMemory: Double {
        daemons.compactMap { process -> Double? in
            let path = "/proc/\(process.processIdentifier)/status"
            guard let text = try? String(contentsOfFile: path, encoding: .utf8),
                let match = text.firstMatch(of: /VmHWM:\s*([0-9]+) kB/)
            else { return nil }
            return Double(match.1).map { $0 * 1024 / 1e6 }
        }.max() ?? .nan
    }

    /// The CPU time that both daemons have taken, in seconds.
    private var processorTime: Double {
        daemons.reduce(0) { sum, process in
            guard let text = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8),
                // The program's name may hold spaces; the fields that are wanted are the 14th and 15th.
                let fields = text.split(separator: ")").last?.split(separator: " "), fields.count > 12,
                let user = Double(fields[11]), let system = Double(fields[12])
            else { return sum }
            return sum + (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
        }
    }
}
