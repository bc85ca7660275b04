// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
package import WireGuardCore

/// The data of an accepted login that its store gets back when the client logs in again with a ticket.
package struct TicketGrant: Equatable, Sendable {
    /// The maximum size of the content, in bytes.
    package static let maximumByteCount = 96

    /// The store's data, which the client cannot read.
    package var content: [UInt8]
    /// The time at which all tickets of the session expire, in seconds since 1970; `nil` for no such time.
    package var deadline: Int64?

    package init(content: [UInt8], deadline: Int64? = nil) {
        self.content = content
        self.deadline = deadline
    }
}

/// Seals and opens the tickets of a server, under a key that is replaced daily. The key before it still opens tickets.
///
/// A ticket has a nonce of 24 bytes, and then, sealed with XChaCha20-Poly1305: the time of its end (8), its secret (32)
/// and the content of its ``TicketGrant``. The associated data is a label and the login.
package final class TicketSealer: Sendable {
    /// A key and the time at which it was made, in seconds since 1970.
    package struct Key: Equatable, Sendable {
        package var key: PresharedKey
        package var madeAt: Int64

        package init(_ key: PresharedKey, madeAt: Int64) {
            self.key = key
            self.madeAt = madeAt
        }
    }

    package struct Keys: Equatable, Sendable {
        package var current: Key
        package var previous: Key?

        package init(current: Key, previous: Key? = nil) {
            self.current = current
            self.previous = previous
        }
    }

    /// The lifetime of a ticket, and the time after which a key is replaced, in seconds.
    package static let lifetime: Int64 = 24 * 3600

    private static let label = Array("Culvert credential tunnel: ticket ".utf8)
    private static let fixedByteCount = 40

    private let stored: Mutex<Keys>
    private let now: @Sendable () -> Int64

    /// - Parameter now: Returns the time in seconds since 1970. Called under the server's lock.
    package init(_ keys: Keys, now: @escaping @Sendable () -> Int64) {
        stored = Mutex(keys)
        self.now = now
    }

    // MARK: - Keys

    /// The current key and the one before it.
    package var keys: Keys {
        get { stored.withLock { $0 } }
        set { stored.withLock { $0 = newValue } }
    }

    /// Returns the keys that must replace the present ones now, or `nil` if their replacement is not due.
    package func replacement(using random: inout some RandomNumberGenerator) -> Keys? {
        let (keys, now) = (keys, now())
        // A key from the future was made before the clock was set back.
        guard !(0..<Self.lifetime).contains(now - keys.current.madeAt) else { return nil }
        return Keys(current: Key(PresharedKey(using: &random), madeAt: now), previous: keys.current)
    }

    // MARK: - Tickets

    /// Returns a new ticket, or `nil` if the grant has ended or is too long.
    func seal(
        _ grant: TicketGrant, secret: Bytes32, login: String, random: inout any RandomNumberGenerator
    ) -> [UInt8]? {
        let (now, limit) = (now(), now() + Self.lifetime)
        let end = min(grant.deadline ?? limit, limit)
        guard end > now, grant.content.count <= TicketGrant.maximumByteCount else { return nil }
        var plain = (0..<8).map { UInt8(truncatingIfNeeded: end >> Int64(8 * $0)) }
        plain.reserveCapacity(Self.fixedByteCount + grant.content.count)
        unsafe secret.withBytes { unsafe plain.append(contentsOf: $0) }
        plain += grant.content
        defer { unsafe plain.withUnsafeMutableBytes { unsafe wipe($0) } }
        let nonce = (0..<XChaChaPoly.nonceByteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
        var ticket = nonce + [UInt8](repeating: 0, count: plain.count + Layout.tagByteCount)
        var key = Bytes32(copying: keys.current.key.secret)
        defer { key.wipe() }
        let associated = Self.label + Array(login.utf8)
        unsafe ticket.withUnsafeMutableBytes { out in
            guard let base = out.baseAddress else { return }
            unsafe plain.withUnsafeBytes { plain in
                unsafe nonce.withUnsafeBytes { nonce in
                    unsafe associated.withUnsafeBytes { associated in
                        unsafe XChaChaPoly.seal(
                            key: key, nonce: nonce, plaintext: plain, authenticating: associated,
                            into: base + XChaChaPoly.nonceByteCount)
                    }
                }
            }
        }
        return ticket
    }

    /// Returns the secret and the content of a valid ticket of a login, or `nil`. The caller wipes the secret.
    func open(_ ticket: [UInt8], login: String) -> (secret: Bytes32, content: [UInt8])? {
        let overhead = XChaChaPoly.nonceByteCount + Layout.tagByteCount
        let byteCount = ticket.count - overhead
        guard (Self.fixedByteCount...Self.fixedByteCount + TicketGrant.maximumByteCount).contains(byteCount) else {
            return nil
        }
        let (keys, now, associated) = (keys, now(), Self.label + Array(login.utf8))
        for key in [keys.current, keys.previous].compactMap(\.self) {
            var secret = Bytes32(copying: key.key.secret)
            defer { secret.wipe() }
            var plain = [UInt8](repeating: 0, count: byteCount)
            defer { unsafe plain.withUnsafeMutableBytes { unsafe wipe($0) } }
            guard Self.open(ticket, associated, secret, into: &plain) else { continue }
            let end = plain.prefix(8).reversed().reduce(Int64(0)) { $0 << 8 | Int64($1) }
            // A ticket that ends later was issued before the clock was set back.
            guard end > now, end - now <= Self.lifetime else { return nil }
            return (unsafe Bytes32 { unsafe $0.copyBytes(from: plain[8..<40]) }, Array(plain[40...]))
        }
        return nil
    }

    private static func open(
        _ ticket: [UInt8], _ associated: [UInt8], _ key: Bytes32, into plain: inout [UInt8]
    ) -> Bool {
        unsafe plain.withUnsafeMutableBytes { out in
            guard let base = out.baseAddress else { return false }
            return unsafe ticket.withUnsafeBytes { ticket in
                unsafe associated.withUnsafeBytes { associated in
                    unsafe XChaChaPoly.open(
                        key: key, nonce: UnsafeRawBufferPointer(rebasing: ticket[..<XChaChaPoly.nonceByteCount]),
                        sealed: UnsafeRawBufferPointer(rebasing: ticket[XChaChaPoly.nonceByteCount...]),
                        authenticating: associated, into: base)
                }
            }
        }
    }
}
