// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A UAPI request to the device.
public enum UAPIOperation: Equatable, Sendable {
    /// Report the state: answer with ``UAPIDeviceState``.
    case get
    /// Change the state.
    case set(UAPIDeviceUpdate)

    /// The kind of request, which determines the sign of the `errno` in the reply.
    public var kind: UAPIOperationKind {
        switch self {
        case .get: .get
        case .set: .set
        }
    }
}

/// The change of a key.
public enum UAPIKeyChange<Key: Equatable & Sendable>: Equatable, Sendable {
    /// The key stays unchanged.
    case unchanged
    /// The key is removed. The request contains a key of zeros.
    case clear
    /// The key is replaced.
    case set(Key)
}

/// The changes of one `set=1` request. They are applied in the order of the properties.
public struct UAPIDeviceUpdate: Equatable, Sendable {
    /// The device's own key. A peer with the same key is removed.
    public var privateKey: UAPIKeyChange<PrivateKey> = .unchanged
    /// The UDP port to listen on; 0 selects any, `nil` keeps it.
    public var listenPort: UInt16?
    /// The mark of outgoing datagrams; 0 removes it, `nil` keeps it.
    public var fwMark: UInt32?
    /// Whether the peers that ``peers`` does not name are removed. The others keep their sessions, unless their keys
    /// change, and get the defaults of the settings that ``peers`` omits, except the endpoint.
    public var replacePeers = false
    /// Changes to peers, in the order of the request. A peer may occur more than once.
    public var peers: [UAPIPeerUpdate] = []

    /// An update that changes nothing.
    public init() {}
}

/// The changes of a peer in a `set=1` request, from one `public_key` to the next. They are applied in the order of the
/// properties.
public struct UAPIPeerUpdate: Equatable, Sendable {
    /// The key that names the peer.
    public var publicKey: PublicKey
    /// Whether to skip the rest if the peer does not exist, instead of creating it.
    public var updateOnly = false
    /// Whether to remove the peer and ignore the rest.
    public var remove = false
    /// The pre-shared key.
    public var presharedKey: UAPIKeyChange<PresharedKey> = .unchanged
    /// The peer's endpoint; `nil` keeps it.
    public var endpoint: Endpoint?
    /// The seconds between keepalives; 0 for none, `nil` to keep the value.
    public var persistentKeepalive: UInt16?
    /// Whether to remove all allowed IPs before the changes in ``allowedIPs`` are applied.
    public var replaceAllowedIPs = false
    /// Changes to the allowed IPs, in the order of the request.
    public var allowedIPs: [AllowedIPChange] = []

    /// Creates an update that adds the peer if it does not exist, and changes nothing else.
    public init(publicKey: PublicKey) { self.publicKey = publicKey }
}

// MARK: - Text

extension UAPIDeviceUpdate {
    /// Appends the request, from `set=1` to the blank line, **including secrets**.
    ///
    /// ``UAPIRequestParser`` parses it to an equal update.
    public func appendRequest(to text: inout [UInt8]) {
        UAPIText.append("set", "1", to: &text)
        switch privateKey {
        case .unchanged: break
        case .clear: UAPIText.append("private_key", .zero, to: &text)
        case .set(let key): UAPIText.append("private_key", key.secret, to: &text)
        }
        if let listenPort { UAPIText.append("listen_port", UInt64(listenPort), to: &text) }
        if let fwMark { UAPIText.append("fwmark", UInt64(fwMark), to: &text) }
        if replacePeers { UAPIText.append("replace_peers", "true", to: &text) }
        for peer in peers { peer.append(to: &text) }
        text.append(ASCII.newline)
    }
}

extension UAPIPeerUpdate {
    fileprivate func append(to text: inout [UInt8]) {
        UAPIText.append("public_key", Bytes32(publicKey), to: &text)
        if updateOnly { UAPIText.append("update_only", "true", to: &text) }
        if remove { UAPIText.append("remove", "true", to: &text) }
        switch presharedKey {
        case .unchanged: break
        case .clear: UAPIText.append("preshared_key", .zero, to: &text)
        case .set(let key): UAPIText.append("preshared_key", key.secret, to: &text)
        }
        if let endpoint { UAPIText.append("endpoint", endpoint, to: &text) }
        if let persistentKeepalive {
            UAPIText.append("persistent_keepalive_interval", UInt64(persistentKeepalive), to: &text)
        }
        if replaceAllowedIPs { UAPIText.append("replace_allowed_ips", "true", to: &text) }
        for change in allowedIPs {
            switch change {
            case .add(let prefix): UAPIText.append("allowed_ip", prefix, to: &text)
            case .remove(let prefix): UAPIText.append("allowed_ip", prefix, sign: UInt8(ascii: "-"), to: &text)
            }
        }
    }
}

/// Lines of UAPI text, appended to bytes.
enum UAPIText {
    static func append(_ key: StaticString, _ value: StaticString, to text: inout [UInt8]) {
        begin(key, &text)
        value.withUTF8Buffer { unsafe text.append(contentsOf: $0) }
        text.append(ASCII.newline)
    }

    static func append(_ key: StaticString, _ value: UInt64, to text: inout [UInt8]) {
        begin(key, &text)
        ASCII.appendDecimal(value, to: &text)
        text.append(ASCII.newline)
    }

    static func append(_ key: StaticString, _ value: Bytes32, to text: inout [UInt8]) {
        begin(key, &text)
        for word in [value.w0, value.w1, value.w2, value.w3] {
            for shift in stride(from: UInt64(0), to: 64, by: 8) { HexKey.append(word >> shift, to: &text) }
        }
        text.append(ASCII.newline)
    }

    static func append(_ key: StaticString, _ value: Secret, to text: inout [UInt8]) {
        begin(key, &text)
        value.withSpan { bytes in
            for index in 0..<bytes.count { HexKey.append(UInt64(bytes[index]), to: &text) }
        }
        text.append(ASCII.newline)
    }

    static func append(_ key: StaticString, _ value: Endpoint, to text: inout [UInt8]) {
        begin(key, &text)
        value.appendText(to: &text)
        text.append(ASCII.newline)
    }

    static func append(_ key: StaticString, _ value: IPPrefix, sign: UInt8? = nil, to text: inout [UInt8]) {
        begin(key, &text)
        if let sign { text.append(sign) }
        value.appendText(to: &text)
        text.append(ASCII.newline)
    }

    private static func begin(_ key: StaticString, _ text: inout [UInt8]) {
        key.withUTF8Buffer { unsafe text.append(contentsOf: $0) }
        text.append(UInt8(ascii: "="))
    }
}

/// Keys in hexadecimal, without branches or table look-ups that depend on their digits.
enum HexKey {
    /// Appends the two digits of the low byte of `value`.
    @inline(__always)
    static func append(_ value: UInt64, to text: inout [UInt8]) {
        text.append(digit(value >> 4 & 15))
        text.append(digit(value & 15))
    }

    @inline(__always)
    private static func digit(_ value: UInt64) -> UInt8 {
        // From 10 on, `9 - value` is negative, so its high bits are all ones.
        let letter = (9 &- value) >> 32 & 39
        return UInt8(truncatingIfNeeded: 48 &+ value &+ letter)
    }

    /// Decodes 64 hexadecimal digits to 32 bytes; `nil` for any other text.
    static func bytes(_ text: Span<UInt8>) -> Bytes32? {
        guard text.count == 64 else { return nil }
        var bad: Int64 = 0
        let key = Bytes32(
            w0: word(text, 0, &bad), w1: word(text, 16, &bad), w2: word(text, 32, &bad), w3: word(text, 48, &bad))
        return bad >= 0 ? key : nil
    }

    private static func word(_ text: Span<UInt8>, _ start: Int, _ bad: inout Int64) -> UInt64 {
        var word: UInt64 = 0
        for index in 0..<8 {
            let high = value(Int64(text[start + 2 * index]))
            let low = value(Int64(text[start + 2 * index + 1]))
            bad |= high | low
            word |= UInt64(truncatingIfNeeded: (high & 15) << 4 | (low & 15)) << UInt64(8 * index)
        }
        return word
    }

    /// Returns the value of a digit, 0 to 15, or a negative number for other characters.
    @inline(__always)
    private static func value(_ character: Int64) -> Int64 {
        let decimal = character &- 48
        let letter = (character | 32) &- 97
        // All bits are one if the number is in the range.
        let isDecimal = ~(decimal | (9 &- decimal)) >> 63
        let isLetter = ~(letter | (5 &- letter)) >> 63
        return (isDecimal & (decimal &+ 1)) &+ (isLetter & (letter &+ 11)) &- 1
    }
}

extension Secret {
    convenience init(_ bytes: Bytes32) {
        unsafe self.init { raw in
            if let base = raw.baseAddress { unsafe bytes.store(to: base) }
        }
    }
}
