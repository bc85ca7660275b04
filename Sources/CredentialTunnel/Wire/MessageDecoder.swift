// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem
package import WireGuardCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Decodes messages. No input makes it trap.
public enum MessageDecoder {
    /// Decodes the header of a datagram, and checks that the length fits the code.
    public static func header(of datagram: [UInt8]) throws(PacketParsingError) -> Header {
        let result = unsafe datagram.withUnsafeBytes { raw in
            Result { () throws(PacketParsingError) in try unsafe header(of: raw) }
        }
        return try result.get()
    }

    /// Decodes the header of a datagram, and checks that the length fits the code.
    package static func header(of datagram: UnsafeRawBufferPointer) throws(PacketParsingError) -> Header {
        guard let base = datagram.baseAddress, datagram.count >= Header.length else {
            throw .truncated(byteCount: datagram.count)
        }
        let word = unsafe base.loadLittleEndian32(at: 0)
        let version = UInt8(truncatingIfNeeded: word >> 8)
        guard let code = PacketCode(rawValue: UInt8(truncatingIfNeeded: word)) else {
            throw .unknownCode(UInt8(truncatingIfNeeded: word))
        }
        guard version == Header.version else { throw .unknownVersion(version) }
        guard word >> 16 == 0 else { throw .reservedBytes }
        guard code.lengths.contains(datagram.count) else { throw .wrongLength(code, byteCount: datagram.count) }
        let counter = code.isSealed ? unsafe base.loadLittleEndian64(at: 8) : 0
        return Header(code: code, index: unsafe base.loadLittleEndian32(at: 4), counter: counter)
    }

    /// Decodes a login from JSON.
    public static func clientAuthRequest(_ body: [UInt8]) throws(PacketParsingError) -> Body.ClientAuthRequest {
        try decode(body)
    }

    /// Decodes a response from JSON.
    public static func serverAuthResponse(_ body: [UInt8]) throws(PacketParsingError) -> Body.ServerAuthResponse {
        try decode(body)
    }

    /// Decodes a login with the fields of tickets.
    static func ticketedLogin(_ body: [UInt8]) throws(PacketParsingError) -> TicketedLogin { try decode(body) }

    /// Decodes a response with its ticket.
    static func ticketedResponse(_ body: [UInt8]) throws(PacketParsingError) -> TicketedResponse { try decode(body) }

    private static func decode<Value: BoundedBody>(_ body: [UInt8]) throws(PacketParsingError) -> Value {
        guard body.count <= Body.maximumByteCount else { throw .bodyTooLong(byteCount: body.count) }
        var data = Data(body)
        defer { data.resetBytes(in: 0..<data.count) }
        // Readers of JSON differ in which of two equal members they use.
        do throws(JSONError) { _ = try JSON.read(body) } catch {
            if error.repeatedPath != nil { throw .notJSON("a member occurs twice") }
        }
        let value: Value
        do { value = try JSONDecoder().decode(Value.self, from: data) } catch { throw .notJSON(describe(error)) }
        try value.check()
        return value
    }

    /// Describes a decoding error, without the values.
    private static func describe(_ error: any Error) -> String {
        switch error as? DecodingError {
        case .keyNotFound(let key, _): "'\(key.stringValue)' is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context): "wrong type at \(path(context))"
        case .dataCorrupted(let context): "not valid at \(path(context))"
        default: "not JSON"
        }
    }

    private static func path(_ context: DecodingError.Context) -> String {
        context.codingPath.last.map { "'\($0.intValue.map(String.init) ?? $0.stringValue)'" } ?? "its top"
    }

    /// Opens a sealed datagram, whose header was decoded, in place: the body replaces its ciphertext. Does not
    /// allocate.
    ///
    /// - Returns: The range of the body, or `nil` if the datagram is not authentic; its content is then undefined.
    @inline(__always)
    package static func openInPlace(
        _ header: Header, _ datagram: UnsafeMutableRawBufferPointer, keys: SessionKeys
    ) -> Range<Int>? {
        guard let base = datagram.baseAddress, datagram.count >= Layout.sealedOverhead, header.code.isSealed else {
            return nil
        }
        let body = unsafe base + Header.sealedLength
        let isAuthentic = unsafe keys.opening.open(
            counter: header.counter, source: body, sealedByteCount: datagram.count &- Header.sealedLength,
            authenticating: UnsafeRawBufferPointer(start: base, count: Header.sealedLength), destination: body)
        return isAuthentic ? Header.sealedLength..<datagram.count &- Layout.tagByteCount : nil
    }
}
