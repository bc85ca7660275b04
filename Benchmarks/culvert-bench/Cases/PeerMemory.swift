// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnelTesting
import WireGuardCore

/// The resident memory per peer that was configured and never contacted. Measured in a separate process, so that freed memory
/// is not reused.
enum PeerMemory {
    static let command = "measure-peer-memory"

    static func suites(isQuick: Bool) -> [Suite] {
        let count = isQuick ? 10_000 : 100_000
        return [
            Suite(
                name: "Memory of idle peers, \(count) peers with one allowed IP each",
                prepare: { _ in
                    guard residentBytes() != nil else { return [] }
                    return [
                        Case(name: "per peer", unit: .bytes) { _ in child(count, networks: 1) ?? .nan }
                    ]
                },
                maximumRuns: 3)
        ]
    }

    /// The bytes for each peer, or `nil` if they cannot be measured.
    /// - Parameter networks: The allowed IPs of each peer, at most ``Scale/networksPerPeer``.
    static func child(_ count: Int, networks: Int) -> Double? {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Program.path)
        process.arguments = [command, String(count), String(networks)]
        let pipe = Pipe()
        process.standardOutput = pipe
        guard (try? process.run()) != nil else { return nil }
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Double(String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// The measurement of the child process.
    static func measure(_ count: Int, networks: Int) {
        var random = SeededGenerator(seed: 21)
        var engine = Engine(random: SeededGenerator(seed: 3))
        engine.setPrivateKey(PrivateKey(using: &random))
        let now = Instant(nanoseconds: 1)
        engine.setUp(true, at: now, wall: WallTime(seconds: 1))
        func add(_ number: Int, _ engine: inout Engine) {
            guard let key = PublicKey(bytes: random.bytes(32)) else { return }
            engine.addPeer(key)
            for network in Scale.networks(number).prefix(networks) { engine.addAllowedIP(network, to: key) }
        }
        // One-time allocations do not count for a peer.
        add(0, &engine)
        guard let before = residentBytes() else { return }
        for number in 1...count { add(number, &engine) }
        guard let after = residentBytes() else { return }
        print(Double(after - before) / Double(count))
        keep(engine.peerCount)
    }

    /// Reads the second field of `/proc/self/statm`. Returns `nil` if there is no such file.
    private static func residentBytes() -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else { return nil }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
