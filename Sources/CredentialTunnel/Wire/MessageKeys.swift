// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import WireGuardCore

/// The keys and indices of one session, for ``MessageEncoder/seal(_:_:counter:keys:)`` and
/// ``MessageDecoder/open(_:keys:)``.
///
/// ``CredentialTunnelProvider`` agrees on such keys itself. Use this type for a protocol of your own with the same
/// datagrams, for example one whose keys another handshake creates.
public struct MessageKeys: Sendable {
    let session: SessionKeys

    /// Creates keys.
    ///
    /// - Parameters:
    ///   - sending: The key of datagrams to the peer: 32 bytes. The peer has it as `receiving`. The two keys must differ,
    ///     or the peer's datagrams could be sent back to it.
    ///   - receiving: The key of datagrams from the peer: 32 bytes.
    ///   - localIndex: The index of the session in datagrams from the peer.
    ///   - remoteIndex: The index of the session in datagrams to the peer.
    /// - Returns: `nil` if a key does not have 32 bytes, or if the two are the same.
    public init?(sending: SecretBytes, receiving: SecretBytes, localIndex: UInt32, remoteIndex: UInt32) {
        guard var sendKey = Self.key(sending), var receiveKey = Self.key(receiving), sendKey != receiveKey else {
            return nil
        }
        defer {
            sendKey.wipe()
            receiveKey.wipe()
        }
        session = SessionKeys(
            sendKey: sendKey, receiveKey: receiveKey, localIndex: localIndex, remoteIndex: remoteIndex)
    }

    private static func key(_ secret: SecretBytes) -> Bytes32? {
        secret.withBytes { span in
            unsafe span.withUnsafeBytes { bytes in
                guard let base = bytes.baseAddress, bytes.count == 32 else { return nil }
                return unsafe Bytes32(loadingFrom: base)
            }
        }
    }
}

extension MessageKeys: CustomReflectable, CustomStringConvertible {
    /// The indices without the keys.
    public var description: String { "keys of session \(session.localIndex), \(session.remoteIndex) at the peer" }
    /// Hides the keys from `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

// MARK: - Single messages

extension MessageEncoder {
    /// Returns a datagram: the header, then the body sealed with ChaCha20-Poly1305 (RFC 8439). The header is
    /// authenticated. The result is 32 bytes longer than the body.
    ///
    /// - Parameters:
    ///   - code: The kind of datagram: one that is sealed.
    ///   - body: An IP packet, or the result of `encode(_:)`.
    ///   - counter: The number of datagrams that were sealed with these keys before. The nonce is this number, so two
    ///     datagrams with one number reveal their bodies.
    ///   - keys: The keys of the session.
    /// - Throws: ``PacketParsingError/notSealed(_:)``, or ``PacketParsingError/wrongLength(_:byteCount:)`` if the body's
    ///   length is not valid for `code`.
    public static func seal(
        _ code: PacketCode, _ body: [UInt8], counter: UInt64, keys: MessageKeys
    ) throws(PacketParsingError) -> [UInt8] {
        guard code.isSealed else { throw .notSealed(code) }
        let byteCount = Layout.sealedOverhead + body.count
        guard code.lengths.contains(byteCount) else { throw .wrongLength(code, byteCount: byteCount) }
        return seal(
            Header(code: code, index: keys.session.remoteIndex, counter: counter), body, keys: keys.session)
    }
}

extension MessageDecoder {
    /// Opens a sealed datagram.
    ///
    /// It does not remember counters. The caller must refuse a datagram whose ``Header/counter`` it has accepted
    /// before, because that is a replay.
    /// - Returns: The header and the body. A login or response is decoded by ``clientAuthRequest(_:)`` and
    ///   ``serverAuthResponse(_:)``.
    /// - Throws: The errors of ``header(of:)``, ``PacketParsingError/notSealed(_:)``, or
    ///   ``PacketParsingError/notAuthentic``.
    public static func open(
        _ datagram: [UInt8], keys: MessageKeys
    ) throws(PacketParsingError) -> (header: Header, body: [UInt8]) {
        let header = try header(of: datagram)
        guard header.code.isSealed else { throw .notSealed(header.code) }
        guard header.index == keys.session.localIndex else { throw .notAuthentic }
        var opened = datagram
        let range = unsafe opened.withUnsafeMutableBytes { unsafe openInPlace(header, $0, keys: keys.session) }
        guard let range else { throw .notAuthentic }
        return (header, Array(opened[range]))
    }
}
