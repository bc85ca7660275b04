// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import WireGuardCore

    /// wg(8), which finds daemons by their management sockets in any namespace.
    enum Wg {
        /// Runs `wg` with these arguments.
        /// - Throws: `CommandFailure` when it fails.
        @discardableResult
        static func run(_ arguments: String...) throws -> String { try PrivilegedTests.run(["wg"] + arguments).output }

        /// Runs `wg` with these arguments and accepts any status.
        static func attempt(_ arguments: String...) throws -> CommandResult {
            try PrivilegedTests.runAllowingFailure(["wg"] + arguments)
        }

        /// Runs `wg VERB INTERFACE FILE` with a configuration in a file.
        static func configure(_ name: String, _ text: String, by verb: String = "setconf") throws {
            let folder = try TemporaryFolder()
            try withExtendedLifetime(folder) {
                _ = try run(verb, name, try folder.write(text, to: "configuration"))
            }
        }

        /// Parses `wg show NAME dump`.
        static func dump(_ name: String) throws -> WgDump {
            let text = try run("show", name, "dump")
            guard let dump = WgDump(text) else { throw CommandFailure(description: "not a dump:\n\(text)") }
            return dump
        }

        /// Returns a peer in `wg show NAME dump`.
        static func peer(_ key: PublicKey, of name: String) throws -> WgDump.Peer {
            guard let peer = try dump(name).peers.first(where: { $0.publicKey == key.base64 }) else {
                throw CommandFailure(description: "no peer \(key.base64) of \(name)")
            }
            return peer
        }
    }

    /// The output of `wg show INTERFACE dump`.
    struct WgDump: Equatable {
        struct Peer: Equatable {
            var publicKey: String
            var presharedKey: String
            var endpoint: String
            var allowedIPs: [String]
            var latestHandshake: Int
            var received: Int
            var sent: Int
            var keepalive: String
        }

        var privateKey: String
        var publicKey: String
        var listenPort: Int
        var mark: String
        var peers: [Peer]

        init?(_ text: String) {
            let lines = text.split(separator: "\n").map { $0.split(separator: "\t").map(String.init) }
            guard let device = lines.first, device.count == 4, let port = Int(device[2]) else { return nil }
            (privateKey, publicKey, listenPort, mark) = (device[0], device[1], port, device[3])
            peers = []
            for line in lines.dropFirst() {
                guard line.count == 8, let handshake = Int(line[4]), let received = Int(line[5]),
                    let sent = Int(line[6])
                else { return nil }
                peers.append(
                    Peer(
                        publicKey: line[0], presharedKey: line[1], endpoint: line[2],
                        allowedIPs: line[3] == "(none)" ? [] : line[3].split(separator: ",").map(String.init),
                        latestHandshake: handshake, received: received, sent: sent, keepalive: line[7]))
            }
        }
    }

    /// A static key pair.
    struct StaticKeys {
        let privateKey: PrivateKey
        let publicKey: PublicKey

        init() {
            var random = SystemRandomNumberGenerator()
            privateKey = PrivateKey(using: &random)
            publicKey = Identity(privateKey).publicKey
        }

        /// The private key as wg(8) takes it.
        var text: String { privateKey.exportedBase64 }
    }
#endif
