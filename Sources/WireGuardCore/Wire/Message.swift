// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The four messages of the WireGuard paper (section 5.4): sizes and offsets, in bytes.
enum Message {
    static let initiationByteCount = 148
    static let responseByteCount = 92
    static let cookieReplyByteCount = 64
    /// The header before the ciphertext of transport data: type, receiver index and counter.
    static let dataHeaderByteCount = 16
    /// The authentication tag of every AEAD in the protocol.
    static let tagByteCount = 16
    /// The shortest transport data: a keepalive, whose plaintext is empty.
    static let minimumDataByteCount = dataHeaderByteCount + tagByteCount

    enum Initiation {
        static let sender = 4
        static let ephemeral = 8
        static let sealedStatic = 40
        static let sealedStaticByteCount = 48
        static let sealedTimestamp = 88
        static let sealedTimestampByteCount = 28
        static let mac1 = 116
        static let mac2 = 132
    }

    enum Response {
        static let sender = 4
        static let receiver = 8
        static let ephemeral = 12
        static let sealedEmpty = 44
        static let sealedEmptyByteCount = 16
        static let mac1 = 60
        static let mac2 = 76
    }

    enum CookieReply {
        static let receiver = 4
        static let nonce = 8
        static let nonceByteCount = 24
        static let sealedCookie = 32
        static let sealedCookieByteCount = 32
    }

    enum Data {
        static let receiver = 4
        static let counter = 8
    }
}

/// The kind of a datagram, according to its first bytes and its length.
enum MessageKind: UInt32 {
    case initiation = 1
    case response = 2
    case cookieReply = 3
    case data = 4

    /// Returns the kind of a datagram whose length is valid for it; `nil` for all other datagrams.
    ///
    /// The type is a 32-bit little-endian number, so this also checks the three reserved bytes.
    @inline(__always)
    static func classify(_ base: UnsafeRawPointer, byteCount: Int) -> MessageKind? {
        guard byteCount >= Message.minimumDataByteCount else { return nil }
        switch unsafe UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)) {
        case MessageKind.data.rawValue: return .data
        case MessageKind.initiation.rawValue: return byteCount == Message.initiationByteCount ? .initiation : nil
        case MessageKind.response.rawValue: return byteCount == Message.responseByteCount ? .response : nil
        case MessageKind.cookieReply.rawValue: return byteCount == Message.cookieReplyByteCount ? .cookieReply : nil
        default: return nil
        }
    }
}

extension UnsafeRawPointer {
    @inline(__always)
    package func loadLittleEndian32(at offset: Int) -> UInt32 {
        unsafe UInt32(littleEndian: loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @inline(__always)
    package func loadLittleEndian64(at offset: Int) -> UInt64 {
        unsafe UInt64(littleEndian: loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}

extension UnsafeMutableRawPointer {
    @inline(__always)
    package func storeLittleEndian(_ value: UInt32, at offset: Int) {
        unsafe storeBytes(of: value.littleEndian, toByteOffset: offset, as: UInt32.self)
    }

    @inline(__always)
    package func storeLittleEndian(_ value: UInt64, at offset: Int) {
        unsafe storeBytes(of: value.littleEndian, toByteOffset: offset, as: UInt64.self)
    }
}
