// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import WireGuardCore

/// A WireGuard daemon's configuration, for `wg setconf`; with an address, for wg-quick.
struct WireGuardSetting {
    struct Peer {
        var key: PublicKey
        var allowedIPs: String
        var endpoint: String?
    }

    var privateKey: PrivateKey
    var peers: [Peer]
    var address: String?

    static let port = 51_820

    private var text: String {
        var lines = ["[Interface]", "PrivateKey = \(privateKey.exportedBase64)", "ListenPort = \(Self.port)"]
        if let address { lines.append("Address = \(address)") }
        for peer in peers {
            lines += ["[Peer]", "PublicKey = \(peer.key.base64)", "AllowedIPs = \(peer.allowedIPs)"]
            if let endpoint = peer.endpoint { lines.append("Endpoint = \(endpoint)") }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Writes the configuration to a file that only this user can read, for as long as `body` runs.
    func withFile(_ body: (String) throws -> Void) throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-bench-\(UUID()).conf")
        try write(to: file.path)
        defer { try? FileManager.default.removeItem(at: file) }
        try body(file.path)
    }

    /// Writes the configuration to a file that only this user can read.
    func write(to path: String) throws {
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw BenchmarkError("cannot write \(path)") }
    }

    /// Hands the configuration to the daemon of one side.
    func apply(to side: Int, of pair: NamespacePair) throws {
        try withFile { try Shell.run(pair.enter(side) + ["wg", "setconf", pair.interfaces[side], $0]) }
    }

    /// A new private key.
    static func newKey() -> PrivateKey {
        var random = SystemRandomNumberGenerator()
        return PrivateKey(using: &random)
    }

    /// The public key of a private one, which any engine knows.
    static func publicKey(of key: PrivateKey) throws -> PublicKey {
        var engine = Engine(random: SystemRandomNumberGenerator())
        engine.setPrivateKey(key)
        guard let publicKey = engine.publicKey else { throw BenchmarkError("no public key") }
        return publicKey
    }
}

/// Starts WireGuard daemons and waits for them.
enum WireGuardDaemon {
    static func start(_ contender: Contender, side: Int, of pair: NamespacePair) throws -> Process {
        // Both stay in the foreground when asked so, wireguard-go with the variable only.
        try Shell.start(
            pair.enter(side) + ["env", "WG_PROCESS_FOREGROUND=1", "LOG_LEVEL=error"] + contender.environment
                + [contender.program, "-f", pair.interfaces[side]],
            errors: FileHandle.standardError)
    }

    /// Waits until the daemon answers at its management socket.
    static func wait(for daemon: Process, _ name: String, side: Int, of pair: NamespacePair) throws {
        let path = "/var/run/wireguard/\(pair.interfaces[side]).sock"
        let start = nanoseconds()
        while nanoseconds() - start < 10_000_000_000, daemon.isRunning {
            if FileManager.default.fileExists(atPath: path) { return }
            usleep(500)
        }
        throw BenchmarkError("\(name) does not serve \(path)")
    }

    /// Ends processes, by force after three seconds.
    static func stop(_ processes: [Process]) {
        for process in processes where process.isRunning { process.terminate() }
        for process in processes {
            for _ in 0..<300 where process.isRunning { usleep(10_000) }
            if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        }
    }
}
