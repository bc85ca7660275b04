// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import CryptoExtras

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// A password hashed with scrypt (RFC 7914), with the parameters that a comparison needs.
package struct PasswordHash: Hashable, Sendable, Codable {
    /// The cost of one hash: `128 * n * r` bytes of memory, and time proportional to `n * r * p`.
    package struct Cost: Hashable, Sendable, Codable, CustomStringConvertible {
        package var n: Int
        package var r: Int
        package var p: Int

        package init(n: Int = 32_768, r: Int = 8, p: Int = 1) {
            self.n = n
            self.r = r
            self.p = p
        }

        /// The most memory that a hash may take, in bytes.
        private static let mostBytes = 1 << 28

        package var isValid: Bool {
            (2...1 << 20).contains(n) && n & (n - 1) == 0 && (1...64).contains(r) && (1...16).contains(p)
                && 128 * n * r * p <= Self.mostBytes
        }

        package var description: String { "scrypt n=\(n) r=\(r) p=\(p)" }
    }

    package var cost: Cost
    /// Both in base64.
    package var salt: Data
    package var key: Data

    private static let byteCount = 32
    /// Longer ones the login tunnel's protocol does not carry, in bytes of UTF-8.
    package static let mostBytes = 512
    package static let fewestCharacters = 8

    /// Whether a password is allowed: UTF-8 within the bounds of length.
    package static func isAcceptable(_ password: [UInt8]) -> Bool {
        password.count <= mostBytes
            && String(validating: password, as: UTF8.self).map { $0.count >= fewestCharacters } == true
    }

    /// The hash of a new password.
    package init?(_ password: [UInt8], cost: Cost, using random: inout some RandomNumberGenerator) {
        let salt = Data((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
        self.init(password, cost: cost, salt: salt)
    }

    private init?(_ password: [UInt8], cost: Cost, salt: Data) {
        guard let derived = Self.derive(password, salt, cost) else { return nil }
        self.cost = cost
        self.salt = salt
        key = unsafe derived.withUnsafeBytes { unsafe Data($0) }
    }

    private init(cost: Cost, salt: Data, key: Data) {
        self.cost = cost
        self.salt = salt
        self.key = key
    }

    /// A hash that no password matches, to compare the password of an unknown login with.
    package static func dummy(_ cost: Cost) -> PasswordHash {
        PasswordHash(cost: cost, salt: Data(repeating: 0, count: 16), key: Data(repeating: 0, count: byteCount))
    }

    /// Whether the password matches. The time does not depend on the result.
    package func matches(_ password: [UInt8]) -> Bool {
        guard let derived = Self.derive(password, salt, cost) else { return false }
        // Compares in constant time.
        return derived == SymmetricKey(data: key)
    }

    package var isValid: Bool { cost.isValid && key.count == Self.byteCount && (8...64).contains(salt.count) }

    private static func derive(_ password: [UInt8], _ salt: Data, _ cost: Cost) -> SymmetricKey? {
        guard cost.isValid else { return nil }
        return try? KDF.Scrypt.deriveKey(
            from: password, salt: salt, outputByteCount: byteCount, rounds: cost.n, blockSize: cost.r,
            parallelism: cost.p)
    }
}

extension PasswordHash: CustomStringConvertible, CustomReflectable {
    package var description: String { "(password, \(cost))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
