// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// The header of a datagram: 8 bytes, or 16 if it is sealed.
///
/// The whole header is authenticated: as associated data of sealed datagrams, and by the handshake otherwise.
public struct Header: Hashable, Sendable {
    /// The number of bytes of a header without a counter.
    public static let length = 8
    /// The number of bytes of a header with a counter.
    public static let sealedLength = 16
    /// The version of the protocol: the second byte.
    public static let version: UInt8 = 1

    /// The kind of datagram.
    public var code: PacketCode
    /// The receiver's index of the session. In a client hello, the first message to a server, the client's own index.
    public var index: UInt32
    /// The number of datagrams sealed earlier under the same key: the nonce. Zero if the datagram is not sealed.
    public var counter: UInt64

    /// Creates a header. The counter is ignored unless the code is sealed.
    public init(code: PacketCode, index: UInt32, counter: UInt64 = 0) {
        self.code = code
        self.index = index
        self.counter = code.isSealed ? counter : 0
    }

    /// The number of bytes of this header.
    public var byteCount: Int { code.isSealed ? Self.sealedLength : Self.length }

    /// The encoded header.
    public var bytes: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: byteCount)
        unsafe bytes.withUnsafeMutableBytes { raw in
            guard let base = raw.baseAddress else { return }
            unsafe store(to: base)
        }
        return bytes
    }

    /// The first four bytes of a datagram, as a little-endian number.
    @inline(__always)
    static func firstWord(_ code: PacketCode) -> UInt32 { UInt32(code.rawValue) | UInt32(version) << 8 }

    /// Writes ``byteCount`` bytes.
    @inline(__always)
    package func store(to bytes: UnsafeMutableRawPointer) {
        unsafe bytes.storeLittleEndian(Self.firstWord(code), at: 0)
        unsafe bytes.storeLittleEndian(index, at: 4)
        if code.isSealed { unsafe bytes.storeLittleEndian(counter, at: 8) }
    }
}
