// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

/// A whole handshake with every input fixed, byte by byte.
///
/// The expected bytes come from an independent reference: Noise_IKpsk2 implemented from the WireGuard paper (section 5.4) in
/// Python, with BLAKE2s from `hashlib` and X25519 and ChaCha20-Poly1305 from the `cryptography` package (OpenSSL);
/// XChaCha20-Poly1305 is OpenSSL's ChaCha20-Poly1305 under an HChaCha20 implemented from the draft. The inputs are
/// consecutive bytes: static keys 1…32 (initiator) and 33…64 (responder), ephemeral keys 65…96 and 97…128, pre-shared key
/// 129…160, indices 0x11223344 and 0xa1b2c3d4, the time 1700000000.1174405 s.
@Suite("Handshake vectors")
struct HandshakeVectorTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        var name: String
        var isPreshared: Bool
        var initiation: [UInt8]
        var response: [UInt8]
        var keepalive: [UInt8]
        var dataToResponder: [UInt8]
        var dataToInitiator: [UInt8]
        var initiatorSendKey: [UInt8]
        var responderSendKey: [UInt8]

        var testDescription: String { name }
    }

    static let vectors = [withPresharedKey, withoutPresharedKey]

    static let withPresharedKey = Vector(
        name: "with a pre-shared key", isPreshared: true,
        initiation: hex(
            "010000004433221164b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466158a0e4ca242d151"
                + "ca97ab90159a98b67e616625e68b4065d357376b6598e644ad7d678c0295d22de4cb43d5135581ed36346bfa7cf42a12"
                + "2639f89315e67f2b43de40f99f8e6be9135e1632d45237be41c55cffa3e7b390a525fe65000000000000000000000000"
                + "00000000"),
        response: hex(
            "02000000d4c3b2a144332211244fe3b963e899dd295baffce248d3530f3a9a7479ba063002680ebfe7adad4927d9d0c1"
                + "0dbd892b072dfd62f2b6d42b744fcf9772ddb343ca4648c3b7608e9900000000000000000000000000000000"),
        keepalive: hex(
            "04000000d4c3b2a10000000000000000c7401bed732b18f3c0e395fc3f7435fa"),
        dataToResponder: hex(
            "04000000d4c3b2a10100000000000000a3896f4540200d3d3eca9e9a549c1ba515adba21fcd2edd41c84389bb08536f5"
                + "886831792bc6e93e4a408c7a9afd7f76"),
        dataToInitiator: hex(
            "040000004433221100000000000000002a3c1180754c383d4c69d8edb9c5a2a2720a57726e4a146f0ccc015742f5b7a6"
                + "a45619a7c5dc3d9136e214e337e10c43"),
        initiatorSendKey: hex(
            "248a29611829aaf7ee8bc8e87df805c1019f08f82d80eb79b7625821ba0a1317"),
        responderSendKey: hex(
            "848308e622b3e15e5ebc5312111efc31082e86c85e9ee93fe8c5aa7f972cc9c3")
    )

    static let withoutPresharedKey = Vector(
        name: "without a pre-shared key", isPreshared: false,
        initiation: hex(
            "010000004433221164b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466158a0e4ca242d151"
                + "ca97ab90159a98b67e616625e68b4065d357376b6598e644ad7d678c0295d22de4cb43d5135581ed36346bfa7cf42a12"
                + "2639f89315e67f2b43de40f99f8e6be9135e1632d45237be41c55cffa3e7b390a525fe65000000000000000000000000"
                + "00000000"),
        response: hex(
            "02000000d4c3b2a144332211244fe3b963e899dd295baffce248d3530f3a9a7479ba063002680ebfe7adad496b48bcfd"
                + "b2fa6808c058f0c9ef1c288f53b3c4377121b445b99576754e763e9200000000000000000000000000000000"),
        keepalive: hex(
            "04000000d4c3b2a10000000000000000fd3ffdf38f1bfad20a6fdb169d83d3d3"),
        dataToResponder: hex(
            "04000000d4c3b2a10100000000000000d2b860596b829cdfcbfd09c81c167c48493c1f84b5c0302cb0908ba3a10bdac0"
                + "cbab214d9d2cd9982ba5759c7cad0baf"),
        dataToInitiator: hex(
            "0400000044332211000000000000000028bd147ed32d05003ab0e161bcdb9ef17d0b08a6c03de1828fa11582dd5b01b1"
                + "e53e065315f6cf9a8da26a71a2a82dca"),
        initiatorSendKey: hex(
            "c5f330b6dc92c8bd4124800733b33cd9d7e5dd2ac8c782e1b558f9b2b60804d8"),
        responderSendKey: hex(
            "df0e53eac779a4c1ab023907c8dda549efdbf8ca9a4ce931ba1d27a2a8be73f9")
    )

    /// The packet that is sent each way: 30 bytes, so two of padding.
    static let packet = hex("4500001e00000000401100000a0000010a000101") + Array("0123456789".utf8)

    static func bytes32(_ first: UInt8) -> Bytes32 {
        let bytes = (0..<32).map { first + UInt8($0) }
        return unsafe bytes.withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return Bytes32.zero }
            return unsafe Bytes32(loadingFrom: base)
        }
    }

    static func array(_ bytes: Bytes32) -> [UInt8] { PublicKey(bytes).bytes }

    static func identity(_ first: UInt8) throws -> Identity {
        Identity(try #require(PrivateKey(bytes: array(bytes32(first)))))
    }

    static let timestamp = TAI64N(WallTime(seconds: 1_700_000_000, nanoseconds: 0x0712_3456))
    static let now = Instant(nanoseconds: 1_000_000_000)

    static func presharedKey(_ vector: Vector) -> PresharedKey? {
        vector.isPreshared ? PresharedKey(bytes: array(bytes32(129))) : nil
    }

    static func handshake(
        initiatorPresharedKey: PresharedKey?, responderPresharedKey: PresharedKey?
    ) throws -> (initiation: [UInt8], response: [UInt8], initiator: HandshakeResult?, responder: HandshakeResult) {
        let (own, other) = (try identity(1), try identity(33))
        let shared = try #require(own.sharedSecret(with: Bytes32(other.publicKey)))
        #expect(other.sharedSecret(with: Bytes32(own.publicKey)) == shared)
        var initiation = [UInt8](repeating: 0, count: Message.initiationByteCount)
        var initiatorJar = CookieJar()
        let begun = unsafe initiation.withUnsafeMutableBytes { raw in
            let handshake = unsafe InitiatorHandshake(
                identity: own, responder: other.publicKey, staticStatic: shared, localIndex: 0x1122_3344,
                ephemeral: bytes32(65), timestamp: timestamp, into: raw.baseAddress.unsafelyUnwrapped)
            unsafe initiatorJar.writeMACs(
                into: raw, mac1Key: NoiseConstants.mac1Key(for: Bytes32(other.publicKey)), at: now)
            return handshake
        }
        let handshake = try #require(begun)

        var received: ReceivedInitiation?
        unsafe initiation.withUnsafeBytes { raw in
            received = unsafe ReceivedInitiation(opening: raw.baseAddress.unsafelyUnwrapped, identity: other)
        }
        guard received != nil else { throw TestFailure() }
        #expect(received?.initiator == own.publicKey)
        #expect(received?.remoteIndex == 0x1122_3344)
        let opened = unsafe initiation.withUnsafeBytes { raw in
            unsafe received?.openTimestamp(staticStatic: shared, from: raw.baseAddress.unsafelyUnwrapped)
        }
        #expect(opened == timestamp)
        var response = [UInt8](repeating: 0, count: Message.responseByteCount)
        var responderJar = CookieJar()
        let responderResult = unsafe response.withUnsafeMutableBytes { raw in
            let result = unsafe received?.respond(
                localIndex: 0xa1b2_c3d4, ephemeral: bytes32(97), presharedKey: responderPresharedKey,
                into: raw.baseAddress.unsafelyUnwrapped)
            unsafe responderJar.writeMACs(
                into: raw, mac1Key: NoiseConstants.mac1Key(for: Bytes32(own.publicKey)), at: now)
            return result
        }
        let initiatorResult = unsafe response.withUnsafeBytes { raw in
            unsafe handshake.finish(
                response: raw.baseAddress.unsafelyUnwrapped, identity: own, presharedKey: initiatorPresharedKey)
        }
        return (initiation, response, initiatorResult, try #require(responderResult))
    }

    struct TestFailure: Error {}

    @Test("Both sides produce the reference's messages and keys", arguments: vectors)
    func messages(_ vector: Vector) throws {
        let key = HandshakeVectorTests.presharedKey(vector)
        let outcome = try HandshakeVectorTests.handshake(initiatorPresharedKey: key, responderPresharedKey: key)
        #expect(outcome.initiation == vector.initiation)
        #expect(outcome.response == vector.response)
        let initiator = try #require(outcome.initiator)
        #expect(HandshakeVectorTests.array(initiator.sendKey) == vector.initiatorSendKey)
        #expect(HandshakeVectorTests.array(initiator.receiveKey) == vector.responderSendKey)
        #expect(HandshakeVectorTests.array(outcome.responder.sendKey) == vector.responderSendKey)
        #expect(HandshakeVectorTests.array(outcome.responder.receiveKey) == vector.initiatorSendKey)
        #expect(initiator.remoteIndex == 0xa1b2_c3d4)
        #expect(outcome.responder.remoteIndex == 0x1122_3344)
    }

    @Test("Transport data equals the reference", arguments: vectors)
    func transportData(_ vector: Vector) throws {
        let key = HandshakeVectorTests.presharedKey(vector)
        let outcome = try HandshakeVectorTests.handshake(initiatorPresharedKey: key, responderPresharedKey: key)
        let initiator = try #require(outcome.initiator)
        let toResponder = SessionKeys(
            sendKey: initiator.sendKey, receiveKey: initiator.receiveKey, localIndex: 0x1122_3344,
            remoteIndex: initiator.remoteIndex)
        let toInitiator = SessionKeys(
            sendKey: outcome.responder.sendKey, receiveKey: outcome.responder.receiveKey, localIndex: 0xa1b2_c3d4,
            remoteIndex: outcome.responder.remoteIndex)
        let packet = HandshakeVectorTests.packet
        #expect(seal([], toResponder, counter: 0) == vector.keepalive)
        #expect(seal(packet, toResponder, counter: 1) == vector.dataToResponder)
        #expect(seal(packet, toInitiator, counter: 0) == vector.dataToInitiator)
    }

    @Test("Different pre-shared keys give no session")
    func presharedKeyMismatch() throws {
        let key = HandshakeVectorTests.presharedKey(HandshakeVectorTests.withPresharedKey)
        let one = try HandshakeVectorTests.handshake(initiatorPresharedKey: key, responderPresharedKey: nil)
        #expect(one.initiator == nil)
        let other = try HandshakeVectorTests.handshake(initiatorPresharedKey: nil, responderPresharedKey: key)
        #expect(other.initiator == nil)
    }

    @Test("A pre-shared key of zeros means no key")
    func zeroPresharedKey() throws {
        let zeros = PresharedKey(bytes: [UInt8](repeating: 0, count: 32))
        let outcome = try HandshakeVectorTests.handshake(initiatorPresharedKey: zeros, responderPresharedKey: nil)
        #expect(outcome.initiator != nil)
    }

    @Test("A cookie reply opens under the reference's vector, and mac2 follows from the cookie")
    func cookieReply() throws {
        let reply = hex(
            "0300000044332211000102030405060708090a0b0c0d0e0f101112131415161714c453752cca4357809ca4d9be4a2070"
                + "b4aad7c4d097dccff17dd94e2a74b3f3")
        let responder = try HandshakeVectorTests.identity(33)
        let mac1Key = NoiseConstants.mac1Key(for: Bytes32(responder.publicKey))
        var message = Array(HandshakeVectorTests.withPresharedKey.initiation)
        var jar = CookieJar()
        unsafe message.withUnsafeMutableBytes { raw in
            unsafe jar.writeMACs(into: raw, mac1Key: mac1Key, at: HandshakeVectorTests.now)
        }
        #expect(message == HandshakeVectorTests.withPresharedKey.initiation)
        let isAccepted = unsafe reply.withUnsafeBytes { raw in
            unsafe jar.accept(
                reply: raw.baseAddress.unsafelyUnwrapped,
                cookieKey: NoiseConstants.cookieKey(for: Bytes32(responder.publicKey)),
                at: HandshakeVectorTests.now)
        }
        #expect(isAccepted)
        unsafe message.withUnsafeMutableBytes { raw in
            unsafe jar.writeMACs(into: raw, mac1Key: mac1Key, at: HandshakeVectorTests.now)
        }
        #expect(Array(message[132...]) == hex("d49f95cdfd0c52a88eccaffb0e59c752"))
    }

    @Test("The initial chaining key and hash are those of the construction and identifier")
    func constants() {
        // `BLAKE2s("Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s")`, and the hash of that and the identifier.
        #expect(
            HandshakeVectorTests.array(NoiseConstants.initialChainingKey)
                == hex("60e26daef327efc02ec335e2a025d2d016eb4206f87277f52d38d1988b78cd36"))
        #expect(
            HandshakeVectorTests.array(NoiseConstants.identifierHash)
                == hex("2211b361081ac566691243db458ad5322d9c6c662293e8b70ee19c65ba079ef3"))
    }

    private func seal(_ packet: [UInt8], _ keys: SessionKeys, counter: UInt64) -> [UInt8] {
        let padded = Padding.paddedLength(packet.count, mtu: 1420)
        var bytes = packet + [UInt8](repeating: 0xee, count: 16)
        var out = [UInt8](repeating: 0, count: Message.minimumDataByteCount + padded)
        unsafe bytes.withUnsafeMutableBytes { source in
            unsafe out.withUnsafeMutableBytes { out in
                unsafe sealPacket(
                    source.baseAddress.unsafelyUnwrapped, byteCount: packet.count, paddedTo: padded, keys.sealing,
                    keys.remoteIndex, counter, into: out.baseAddress.unsafelyUnwrapped)
            }
        }
        // Padding is written behind the packet and taken back.
        #expect(bytes == packet + [UInt8](repeating: 0xee, count: 16))
        return out
    }
}
