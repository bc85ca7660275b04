// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Encodes messages.
public enum MessageEncoder {
    /// Returns the padded JSON of a login. The caller wipes it.
    public static func encode(_ body: Body.ClientAuthRequest) throws(PacketParsingError) -> [UInt8] {
        try json(of: body)
    }

    /// Returns the padded JSON of a response.
    public static func encode(_ body: Body.ServerAuthResponse) throws(PacketParsingError) -> [UInt8] {
        try json(of: body)
    }

    /// Returns the padded JSON of a login with the fields of tickets. The caller wipes it.
    static func encode(_ body: TicketedLogin) throws(PacketParsingError) -> [UInt8] { try json(of: body) }

    /// Returns the padded JSON of an accepted login's response, with the ticket if it fits.
    static func encode(
        _ response: Body.ServerAuthResponse, ticket: [UInt8]?
    ) throws(PacketParsingError) -> [UInt8] {
        if let ticket, let body = try? json(of: TicketedResponse(response, ticket: ticket)) { return body }
        return try json(of: response)
    }

    private static func json(of body: some BoundedBody) throws(PacketParsingError) -> [UInt8] {
        try body.check()
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var data: Data
        do { data = try encoder.encode(body) } catch { throw .notJSON("JSON cannot hold a value") }
        defer { data.resetBytes(in: 0..<data.count) }
        let padded = (data.count + Body.padding - 1) / Body.padding * Body.padding
        guard padded <= Body.maximumByteCount else { throw .bodyTooLong(byteCount: data.count) }
        // Reserve the full capacity, so that the array never grows and leaves no copy of the password.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(padded)
        bytes.append(contentsOf: data)
        bytes.append(contentsOf: repeatElement(UInt8(ascii: " "), count: padded - data.count))
        return bytes
    }

    /// Returns a datagram with a header, and a body sealed under a session's keys.
    package static func seal(_ header: Header, _ body: [UInt8], keys: SessionKeys) -> [UInt8] {
        var datagram = [UInt8](repeating: 0, count: Layout.sealedOverhead + body.count)
        unsafe datagram.withUnsafeMutableBytes { raw in
            guard let base = raw.baseAddress else { return }
            unsafe UnsafeMutableRawBufferPointer(rebasing: raw[Header.sealedLength...]).copyBytes(from: body)
            unsafe sealInPlace(header, byteCount: body.count, at: base, keys: keys)
        }
        return datagram
    }

    /// Seals the `byteCount` bytes at offset 16 of `datagram`, and writes header and tag around them. No allocation.
    ///
    /// The receiver's index is taken from the session's keys, not from the header.
    @inline(__always)
    package static func sealInPlace(
        _ header: Header, byteCount: Int, at datagram: UnsafeMutableRawPointer, keys: SessionKeys
    ) {
        unsafe seal(header, datagram + Header.sealedLength, byteCount: byteCount, into: datagram, keys: keys)
    }

    /// Seals `byteCount` bytes of `source` into `datagram`, with header and tag around them. No allocation.
    ///
    /// `source` must not overlap the output, or must be at offset 16 of `datagram`. The receiver's index is that of the
    /// session, not that of the header.
    @inline(__always)
    static func seal(
        _ header: Header, _ source: UnsafeRawPointer, byteCount: Int, into datagram: UnsafeMutableRawPointer,
        keys: SessionKeys
    ) {
        unsafe Header(code: header.code, index: keys.remoteIndex, counter: header.counter).store(to: datagram)
        unsafe keys.sealing.seal(
            counter: header.counter, source: source, byteCount: byteCount,
            authenticating: UnsafeRawBufferPointer(start: datagram, count: Header.sealedLength),
            destination: datagram + Header.sealedLength)
    }
}
