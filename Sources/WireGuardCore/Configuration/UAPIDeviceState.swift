// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The state of a device, as `get=1` reports it.
public struct UAPIDeviceState: Equatable, Sendable {
    /// The device's own key, if it has one.
    public var privateKey: PrivateKey?
    /// The UDP port on which the device listens; 0 if it does not listen.
    public var listenPort: UInt16 = 0
    /// The mark of outgoing datagrams; 0 for no mark.
    public var fwMark: UInt32 = 0
    /// The peers.
    public var peers: [UAPIPeerState] = []

    /// A device with nothing set.
    public init() {}
}

/// The state of one peer, as `get=1` reports it.
public struct UAPIPeerState: Equatable, Sendable {
    /// The key that names the peer.
    public var publicKey: PublicKey
    /// The pre-shared key, if there is one.
    public var presharedKey: PresharedKey?
    /// The peer's last or configured endpoint, or `nil` if unknown.
    public var endpoint: Endpoint?
    /// The time of the last handshake; `nil` if there was none.
    public var lastHandshake: UAPITimestamp?
    /// The bytes of all datagrams sent to the peer.
    public var transmittedBytes: UInt64 = 0
    /// The bytes of all valid datagrams received from the peer.
    public var receivedBytes: UInt64 = 0
    /// Seconds between keepalives; 0 for never.
    public var persistentKeepalive: UInt16 = 0
    /// The networks behind the peer.
    public var allowedIPs: [IPPrefix] = []

    /// Creates the state of a peer from which nothing was received.
    public init(publicKey: PublicKey) { self.publicKey = publicKey }
}

/// A time of the wall clock, counted from the beginning of 1970 in UTC.
public struct UAPITimestamp: Hashable, Sendable {
    /// Whole seconds since 1970.
    public var seconds: UInt64
    /// Nanoseconds since that second, less than 1,000,000,000.
    public var nanoseconds: UInt32

    /// A time.
    public init(seconds: UInt64, nanoseconds: UInt32) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }
}

// MARK: - Writing

extension UAPIDeviceState {
    /// Appends the whole reply to `get=1`, from the first key to `errno=0` and the blank line, **including secrets**.
    ///
    /// The order of the lines is that of wireguard-go. A reply can also be written piece by piece, with
    /// ``appendDevice(to:)``, ``UAPIPeerState/append(to:)`` and ``UAPIReply/append(_:answering:to:)``.
    public func appendReply(to text: inout [UInt8]) {
        appendDevice(to: &text)
        for peer in peers { peer.append(to: &text) }
        UAPIReply.append(nil, answering: .get, to: &text)
    }

    /// Appends the lines of the device without its peers.
    public func appendDevice(to text: inout [UInt8]) {
        if let privateKey, !privateKey.isZero { UAPIText.append("private_key", privateKey.secret, to: &text) }
        if listenPort != 0 { UAPIText.append("listen_port", UInt64(listenPort), to: &text) }
        if fwMark != 0 { UAPIText.append("fwmark", UInt64(fwMark), to: &text) }
    }
}

extension UAPIPeerState {
    /// Appends the lines of the peer.
    public func append(to text: inout [UInt8]) {
        UAPIText.append("public_key", Bytes32(publicKey), to: &text)
        if let presharedKey {
            UAPIText.append("preshared_key", presharedKey.secret, to: &text)
        } else {
            UAPIText.append("preshared_key", .zero, to: &text)
        }
        UAPIText.append("protocol_version", "1", to: &text)
        if let endpoint { UAPIText.append("endpoint", endpoint, to: &text) }
        UAPIText.append("last_handshake_time_sec", lastHandshake?.seconds ?? 0, to: &text)
        UAPIText.append("last_handshake_time_nsec", UInt64(lastHandshake?.nanoseconds ?? 0), to: &text)
        UAPIText.append("tx_bytes", transmittedBytes, to: &text)
        UAPIText.append("rx_bytes", receivedBytes, to: &text)
        UAPIText.append("persistent_keepalive_interval", UInt64(persistentKeepalive), to: &text)
        for prefix in allowedIPs { UAPIText.append("allowed_ip", prefix, to: &text) }
    }
}

// MARK: - Reading

/// The error of an unusable reply.
public enum UAPIReplyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The device refused the request with this `errno` value.
    case refused(errno: Int32)
    /// The reply ends before its `errno` and blank line.
    case incomplete
    /// A line of the reply is malformed.
    case malformed(UAPIError)

    /// The error in one line.
    public var description: String {
        switch self {
        case .refused(let errno): "the device refused the request with errno \(errno)"
        case .incomplete: "the reply breaks off before its errno line; is the daemon still running?"
        case .malformed(let error): "the reply is malformed: \(error)"
        }
    }
}

extension UAPIDeviceState {
    /// Parses the whole reply to `get=1`. Unknown keys are skipped, as `wg` does.
    /// - Parameters:
    ///   - reply: Everything up to and including the blank line.
    ///   - resolveZone: Returns the index of the interface with this name, for an `endpoint` such as
    ///     `[fe80::1%eth0]:51820`.
    public init(
        reply: [UInt8], resolveZone: (String) -> UInt32? = { _ in nil }
    ) throws(UAPIReplyError) {
        guard let errno = UAPIReply.errno(in: reply) else { throw .incomplete }
        guard errno == 0 else { throw .refused(errno: errno) }
        self.init()
        let slice = reply[...]
        let text = slice.span
        var start = 0
        var number = 0
        while let end = ASCII.firstIndex(of: ASCII.newline, in: text, from: start), end > start {
            let line = text.extracting(start..<end)
            number += 1
            start = end + 1
            do throws(UAPILineError) {
                try read(line, resolveZone)
            } catch {
                throw .malformed(
                    UAPIError(
                        errno: error.errno, operation: .get, line: number, text: UAPILine.redacted(line),
                        reason: error.reason,
                        fix: "the daemon and this program do not speak the same protocol; update both"))
            }
        }
        guard start == reply.count - 1 else { throw .incomplete }
    }

    private mutating func read(_ line: Span<UInt8>, _ resolveZone: (String) -> UInt32?) throws(UAPILineError) {
        let equals = try UAPILine.equalsSign(line)
        let key = line.extracting(0..<equals)
        let value = line.extracting((equals + 1)..<line.count)
        if ASCII.equal(key, "public_key") {
            peers.append(UAPIPeerState(publicKey: PublicKey(try UAPILine.key(value))))
        } else if !peers.isEmpty {
            try peers[peers.count - 1].read(key, value, resolveZone)
        } else if ASCII.equal(key, "private_key") {
            let bytes = try UAPILine.key(value)
            privateKey = bytes.isZero ? nil : PrivateKey(secret: Secret(bytes))
        } else if ASCII.equal(key, "listen_port") {
            listenPort = UInt16(truncatingIfNeeded: try UAPILine.number(value, limit: UInt64(UInt16.max)))
        } else if ASCII.equal(key, "fwmark") {
            fwMark = UInt32(truncatingIfNeeded: try UAPILine.number(value, limit: UInt64(UInt32.max)))
        }
    }
}

extension UAPIPeerState {
    fileprivate mutating func read(
        _ key: Span<UInt8>, _ value: Span<UInt8>, _ resolveZone: (String) -> UInt32?
    ) throws(UAPILineError) {
        if ASCII.equal(key, "allowed_ip") {
            allowedIPs.append(try UAPILine.prefix(value))
        } else if ASCII.equal(key, "preshared_key") {
            let bytes = try UAPILine.key(value)
            presharedKey = bytes.isZero ? nil : PresharedKey(secret: Secret(bytes))
        } else if ASCII.equal(key, "protocol_version") {
            try UAPILine.protocolVersion(value)
        } else if ASCII.equal(key, "endpoint") {
            endpoint = try UAPILine.endpoint(value, resolveZone: resolveZone)
        } else if ASCII.equal(key, "last_handshake_time_sec") {
            let seconds = try UAPILine.number(value, limit: .max)
            setHandshake(seconds: seconds, nanoseconds: lastHandshake?.nanoseconds ?? 0)
        } else if ASCII.equal(key, "last_handshake_time_nsec") {
            let nanoseconds = try UAPILine.number(value, limit: 999_999_999)
            setHandshake(seconds: lastHandshake?.seconds ?? 0, nanoseconds: UInt32(truncatingIfNeeded: nanoseconds))
        } else if ASCII.equal(key, "tx_bytes") {
            transmittedBytes = try UAPILine.number(value, limit: .max)
        } else if ASCII.equal(key, "rx_bytes") {
            receivedBytes = try UAPILine.number(value, limit: .max)
        } else if ASCII.equal(key, "persistent_keepalive_interval") {
            persistentKeepalive = UInt16(truncatingIfNeeded: try UAPILine.number(value, limit: UInt64(UInt16.max)))
        }
    }

    /// If both values are zero, there was no handshake.
    private mutating func setHandshake(seconds: UInt64, nanoseconds: UInt32) {
        lastHandshake =
            seconds == 0 && nanoseconds == 0 ? nil : UAPITimestamp(seconds: seconds, nanoseconds: nanoseconds)
    }
}
