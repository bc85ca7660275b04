// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The kind of a datagram: its first byte.
public enum PacketCode: UInt8, CaseIterable, Sendable {
    /// The client's login, sealed.
    case clientAuthRequest = 0x01
    /// The server's response to a login, sealed.
    case serverAuthResponse = 0x02
    /// An IP packet in either direction, sealed. Without a packet, it is a keepalive.
    case data = 0x03
    /// The client's first handshake message.
    case clientHello = 0x04
    /// The server's response to a client hello.
    case serverHello = 0x05
    /// A cookie, which a server under load sends instead of a server hello.
    case cookie = 0x06
    /// A new key exchange inside a session, sealed.
    case rekeyRequest = 0x07
    /// The server's response to a rekey request, sealed.
    case rekeyResponse = 0x08
    /// An unauthenticated notice of a server. It only explains a failure.
    case error = 0x09
    /// The end of a session, sealed, from either side.
    case disconnect = 0x0a

    /// Whether the datagram is sealed under a session's keys, so that its header has a counter.
    public var isSealed: Bool {
        switch self {
        case .clientAuthRequest, .serverAuthResponse, .data, .rekeyRequest, .rekeyResponse, .disconnect: true
        case .clientHello, .serverHello, .cookie, .error: false
        }
    }

    /// The lengths that a datagram of this code may have, in bytes.
    public var lengths: ClosedRange<Int> {
        switch self {
        case .clientHello: Layout.ClientHello.byteCount...Layout.ClientHello.byteCount
        case .serverHello: Layout.ServerHello.byteCount...Layout.ServerHello.byteCount
        case .cookie: Layout.Cookie.byteCount...Layout.Cookie.byteCount
        case .error: Layout.Notice.byteCount...Layout.Notice.byteCount
        case .clientAuthRequest, .serverAuthResponse:
            // The shortest body is `{}`.
            Layout.sealedOverhead + 2...Layout.sealedOverhead + Body.maximumByteCount
        case .data: Layout.sealedOverhead...Layout.maximumDatagramByteCount
        case .rekeyRequest, .rekeyResponse:
            Layout.sealedOverhead + Layout.Rekey.byteCount...Layout.sealedOverhead + Layout.Rekey.byteCount
        case .disconnect: Layout.sealedOverhead + 1...Layout.sealedOverhead + 1
        }
    }
}

/// Sizes and offsets in bytes. The documentation's page on the datagram format lists all of them.
enum Layout {
    /// The authentication tag of every AEAD in the protocol.
    static let tagByteCount = 16
    /// The bytes that sealing adds to a body: header and tag.
    static let sealedOverhead = Header.sealedLength + tagByteCount
    /// The maximum UDP payload over IPv4.
    static let maximumDatagramByteCount = 65_507

    /// The client's hello. Its payload of zeros makes the hello longer than each response to it.
    enum ClientHello {
        static let noise = 8
        static let payloadByteCount = 40
        static let noiseByteCount = 32 + payloadByteCount + tagByteCount
        static let mac1 = noise + noiseByteCount
        static let mac2 = mac1 + 16
        static let byteCount = mac2 + 16
    }

    /// The server's hello. Its payload is the server's index.
    enum ServerHello {
        static let noise = 8
        static let payloadByteCount = 4
        static let noiseByteCount = 32 + payloadByteCount + tagByteCount
        static let byteCount = noise + noiseByteCount
    }

    /// Like WireGuard's cookie reply: nonce and sealed cookie after the header.
    enum Cookie {
        static let byteCount = 64
    }

    /// An unauthenticated notice: one byte, and seven zeros.
    enum Notice {
        static let kind = 8
        static let byteCount = 16
    }

    /// The body of a rekey request (an index, then a Noise message without payload) and of its response (a Noise
    /// message with an index as payload). Both have the same length.
    enum Rekey {
        static let requestNoise = 4
        static let requestNoiseByteCount = 32 + tagByteCount
        static let byteCount = requestNoise + requestNoiseByteCount
    }
}
