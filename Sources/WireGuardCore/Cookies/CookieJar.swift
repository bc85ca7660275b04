// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The initiator's half of the cookie mechanism: it writes both MACs, and stores the cookie of a reply.
///
/// Source: WireGuard paper, sections 5.4.4 and 5.4.7.
package struct CookieJar {
    /// The time for which a cookie is used.
    package static let lifetime: Duration = .seconds(120)

    private(set) var cookie = Mac16.zero
    private var cookieExpiry: Instant?
    private var lastMac1 = Mac16.zero
    private var awaitsReply = false

    /// A jar without a cookie.
    package init() {}

    /// Whether there is a cookie that has not expired.
    package func hasCookie(at now: Instant) -> Bool {
        guard let cookieExpiry else { return false }
        return now < cookieExpiry
    }

    /// Writes mac1 and mac2 into the last 32 bytes of a handshake message. Without a cookie, mac2 is zeros.
    package mutating func writeMACs(into message: UnsafeMutableRawBufferPointer, mac1Key: Bytes32, at now: Instant) {
        let end = message.count - 32
        guard end > 0, let base = message.baseAddress else { return }
        let mac1 = unsafe Blake2s.mac16(key: mac1Key, UnsafeRawBufferPointer(start: base, count: end))
        unsafe mac1.store(to: base + end)
        lastMac1 = mac1
        awaitsReply = true
        var mac2 = Mac16.zero
        if hasCookie(at: now) {
            mac2 = unsafe Blake2s.mac16(key: cookie, UnsafeRawBufferPointer(start: base, count: end + 16))
        }
        unsafe mac2.store(to: base + end + 16)
    }

    /// Decrypts and stores the cookie of a reply of 64 bytes.
    /// - Returns: `false` if the reply does not answer the last message, or the message was answered before.
    package mutating func accept(reply: UnsafeRawPointer, cookieKey: Bytes32, at now: Instant) -> Bool {
        guard awaitsReply else { return false }
        let nonce = unsafe UnsafeRawBufferPointer(
            start: reply + Message.CookieReply.nonce, count: Message.CookieReply.nonceByteCount)
        let sealed = unsafe UnsafeRawBufferPointer(
            start: reply + Message.CookieReply.sealedCookie, count: Message.CookieReply.sealedCookieByteCount)
        let opened = unsafe lastMac1.withBytes { mac1 in
            unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 8) { plain -> Mac16? in
                guard let base = plain.baseAddress else { return nil }
                guard
                    unsafe XChaChaPoly.open(
                        key: cookieKey, nonce: nonce, sealed: sealed, authenticating: mac1, into: base)
                else { return nil }
                return unsafe Mac16(loadingFrom: base)
            }
        }
        guard var opened else { return false }
        defer { opened.wipe() }
        cookie.wipe()
        cookie = opened
        cookieExpiry = now + CookieJar.lifetime
        awaitsReply = false
        return true
    }

    /// Wipes the cookie.
    package mutating func forget() {
        cookie.wipe()
        cookieExpiry = nil
        awaitsReply = false
    }
}
