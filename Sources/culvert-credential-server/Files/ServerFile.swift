// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A file of JSON in a server's folder, which its owner alone may read.
protocol ServerFile: Codable {
    static var name: String { get }
    /// The version of the format; this program knows version 1.
    var version: Int { get }
    /// The contents while there is no file.
    init()
}

extension ServerFile {
    /// Reads the file.
    init(from directory: PrivateDirectory<CommandFailure>) throws(CommandFailure) {
        guard let bytes = try directory.read(Self.name) else {
            self.init()
            return
        }
        try self.init(json: bytes)
    }

    init(json bytes: [UInt8]) throws(CommandFailure) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(bytes))
        } catch {
            throw CommandFailure(
                "\(Self.name) cannot be read: it is not the JSON that it should be", fix: "restore it from a copy")
        }
        guard version == 1 else {
            throw CommandFailure(
                "\(Self.name) is of version \(version), which this program does not know", fix: "update it")
        }
    }

    func write(_ directory: PrivateDirectory<CommandFailure>) throws(CommandFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { throw CommandFailure("\(Self.name) cannot be written") }
        try directory.write(Array(data) + [UInt8(ascii: "\n")], to: Self.name)
    }
}
