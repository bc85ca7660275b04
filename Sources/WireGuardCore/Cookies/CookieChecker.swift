// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The responder's half of the cookie mechanism: it checks both MACs and makes cookie replies.
///
/// Source: WireGuard paper, sections 5.3, 5.4.4 and 5.4.7. A cookie is bound to address and port.
package struct CookieChecker {
    /// The time for which one secret is used. A cookie from the previous secret is refused.
    package static let secretLifetime: Duration = .seconds(120)

    private(set) var secret = Bytes32.zero
    /// The key and the counter from which nonces are made. Each nonce is unique, and needs no system call.
    private var nonceKey = Bytes32.zero
    private var nonceCount: UInt64 = 0
    private var renewAt: Instant?

    /// Creates a checker that has issued no cookies.
    package init() {}

    /// Whether mac1 proves that the sender knows our public key. The MACs are the last 32 bytes of `message`.
    static func isMac1Valid(_ message: UnsafeRawBufferPointer, identity: Identity) -> Bool {
        unsafe isMac1Valid(message, key: identity.mac1Key)
    }

    /// Whether mac1 is valid under `key`.
    package static func isMac1Valid(_ message: UnsafeRawBufferPointer, key: Bytes32) -> Bool {
        let end = message.count - 32
        guard end > 0, let base = message.baseAddress else { return false }
        let expected = unsafe Blake2s.mac16(key: key, UnsafeRawBufferPointer(start: base, count: end))
        return unsafe expected == Mac16(loadingFrom: base + end)
    }

    /// Whether mac2 proves that the sender recently received a cookie at `source`.
    package func isMac2Valid(
        _ message: UnsafeRawBufferPointer, from source: Endpoint, at now: Instant
    ) -> Bool {
        let end = message.count - 16
        guard end > 0, let base = message.baseAddress, let renewAt, now < renewAt else { return false }
        var cookie = cookie(for: source)
        defer { cookie.wipe() }
        let expected = unsafe Blake2s.mac16(key: cookie, UnsafeRawBufferPointer(start: base, count: end))
        return unsafe expected == Mac16(loadingFrom: base + end)
    }

    /// Writes a cookie reply of 64 bytes to `message`, whose mac1 was verified.
    mutating func reply(
        to message: UnsafeRawBufferPointer, from source: Endpoint, identity: Identity, at now: Instant,
        random: inout any RandomNumberGenerator, into out: UnsafeMutableRawPointer
    ) {
        guard let base = message.baseAddress, message.count >= 36 else { return }
        unsafe out.storeLittleEndian(MessageKind.cookieReply.rawValue, at: 0)
        // In both kinds of message, the sender's index follows the type.
        unsafe out.storeLittleEndian(base.loadLittleEndian32(at: 4), at: Message.CookieReply.receiver)
        unsafe writeCookie(
            answering: message, from: source, cookieKey: identity.cookieKey, at: now, random: &random, into: out)
    }

    /// Writes the nonce and the sealed cookie, bytes 8 to 63 of a reply. The caller writes the first 8 bytes.
    package mutating func writeCookie(
        answering message: UnsafeRawBufferPointer, from source: Endpoint, cookieKey: Bytes32, at now: Instant,
        random: inout any RandomNumberGenerator, into out: UnsafeMutableRawPointer
    ) {
        guard let base = message.baseAddress, message.count >= 36 else { return }
        if let renewAt, now < renewAt {
        } else {
            secret.wipe()
            secret = Bytes32(random: &random)
            nonceKey.wipe()
            nonceKey = Bytes32(random: &random)
            renewAt = now + CookieChecker.secretLifetime
        }
        nonceCount &+= 1
        let words = Blake2s.hash(nonceKey, Bytes32(w0: nonceCount, w1: 0, w2: 0, w3: 0))
        unsafe out.storeLittleEndian(words.w0, at: Message.CookieReply.nonce)
        unsafe out.storeLittleEndian(words.w1, at: Message.CookieReply.nonce + 8)
        unsafe out.storeLittleEndian(words.w2, at: Message.CookieReply.nonce + 16)
        let nonce = unsafe UnsafeRawBufferPointer(
            start: out + Message.CookieReply.nonce, count: Message.CookieReply.nonceByteCount)
        let mac1 = unsafe UnsafeRawBufferPointer(start: base + message.count - 32, count: 16)
        var cookie = cookie(for: source)
        defer { cookie.wipe() }
        unsafe cookie.withBytes { plain in
            unsafe XChaChaPoly.seal(
                key: cookieKey, nonce: nonce, plaintext: plain, authenticating: mac1,
                into: out + Message.CookieReply.sealedCookie)
        }
    }

    /// Wipes the secret, which invalidates every cookie made with it.
    package mutating func forget() {
        secret.wipe()
        nonceKey.wipe()
        renewAt = nil
    }

    /// Returns the cookie for a source. The caller must wipe it.
    private func cookie(for source: Endpoint) -> Mac16 {
        unsafe withUnsafeTemporaryAllocation(byteCount: 24, alignment: 8) { bytes in
            guard let base = bytes.baseAddress else { return Mac16.zero }
            unsafe base.storeBytes(of: source.address.high.bigEndian, as: UInt64.self)
            unsafe base.storeBytes(of: source.address.low.bigEndian, toByteOffset: 8, as: UInt64.self)
            unsafe base.storeBytes(of: source.port.bigEndian, toByteOffset: 16, as: UInt16.self)
            unsafe base.storeBytes(
                of: UInt16(source.address.family.rawValue).bigEndian, toByteOffset: 18, as: UInt16.self)
            unsafe base.storeBytes(of: source.scopeID.bigEndian, toByteOffset: 20, as: UInt32.self)
            return unsafe Blake2s.mac16(key: secret, UnsafeRawBufferPointer(bytes))
        }
    }
}

extension Bytes32 {
    package init(random: inout any RandomNumberGenerator) {
        self.init(w0: random.next(), w1: random.next(), w2: random.next(), w3: random.next())
    }
}
