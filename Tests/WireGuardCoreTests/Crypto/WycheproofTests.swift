// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

@testable import WireGuardCore

@Suite("The vectors of Project Wycheproof for ChaCha20-Poly1305")
struct WycheproofTests {
    private struct Vector {
        var number: Substring
        var isValid: Bool
        var key, nonce, authenticated, plaintext, sealed: [UInt8]

        init?(_ line: Substring) {
            let fields = line.split(separator: " ")
            guard fields.count == 7, fields[1] == "valid" || fields[1] == "invalid" else { return nil }
            number = fields[0]
            isValid = fields[1] == "valid"
            let bytes = fields[2...].map { $0 == "-" ? [] : CryptoTest.bytes(String($0)) }
            (key, nonce, authenticated, plaintext, sealed) = (bytes[0], bytes[1], bytes[2], bytes[3], bytes[4])
        }
    }

    /// The lines of the fixture that are not comments.
    private static func vectors() throws -> [Vector] {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let data = try Data(contentsOf: tests.appending(path: "Fixtures/wycheproof/chacha20-poly1305.txt"))
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }
        return try lines.map { try #require(Vector($0), "\($0.prefix(40))") }
    }

    @Test("A valid message is sealed and opened as given, and an invalid one is refused", arguments: BackEnd.allCases)
    func vectors(backEnd: BackEnd) throws {
        let vectors = try Self.vectors()
        #expect(vectors.count == 316)
        for vector in vectors {
            let opened = backEnd.open(
                key: vector.key, nonce: vector.nonce, vector.sealed, authenticating: vector.authenticated)
            #expect(opened == (vector.isValid ? vector.plaintext : nil), "test \(vector.number)")
            guard vector.isValid else { continue }
            let sealed = backEnd.seal(
                key: vector.key, nonce: vector.nonce, vector.plaintext, authenticating: vector.authenticated)
            #expect(sealed == vector.sealed, "test \(vector.number)")
        }
    }
}
