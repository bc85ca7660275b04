// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

/// The content of a ticket of the login tunnel: it lets a user begin a session again without a password check.
package struct LoginResumption: Equatable, Sendable {
    /// The device of the session in which the ticket was issued.
    package var device: DeviceID
    /// A random number of that session.
    package var session: UInt64
    /// The hash of the stored password that the session began with. Another password of the user makes the ticket void.
    package var password: SecretHash
    /// The time of the latest password check, in seconds since 1970. A session's lifetime begins there.
    package var verifiedAt: Int64

    package init(device: DeviceID, session: UInt64, password: StoredPassword, verifiedAt: Int64) {
        self.device = device
        self.session = session
        self.password = SecretHash(of: Array(password.text.utf8))
        self.verifiedAt = verifiedAt
    }

    /// The number of bytes of an ID's text.
    private static let idByteCount = 26

    /// Reads the content of a ticket; `nil` for the content of another version.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.idByteCount + 48,
            let device = DeviceID(String(decoding: bytes.prefix(Self.idByteCount), as: UTF8.self)),
            let password = SecretHash(bytes: Array(bytes.suffix(32)))
        else { return nil }
        func number(_ offset: Int) -> UInt64 {
            bytes[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        (self.device, self.password) = (device, password)
        session = number(Self.idByteCount)
        verifiedAt = Int64(bitPattern: number(Self.idByteCount + 8))
    }

    /// The content of a ticket: the device's ID (26), session (8), time (8) and hash (32).
    package var bytes: [UInt8] {
        func bytes(_ number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) } }
        return Array("\(device)".utf8) + bytes(session) + bytes(UInt64(bitPattern: verifiedAt)) + password.bytes
    }

    /// Whether the user has the password that the session began with.
    func matches(_ password: StoredPassword) -> Bool { self.password == SecretHash(of: Array(password.text.utf8)) }
}
