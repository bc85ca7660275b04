// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The error in one line of a request or reply.
struct UAPILineError: Error {
    var errno: UAPIErrno
    var reason: String
    var fix: String

    init(_ reason: String, fix: String, errno: UAPIErrno = .invalid) {
        self.errno = errno
        self.reason = reason
        self.fix = fix
    }
}

/// The values of UAPI lines.
enum UAPILine {
    /// The offset of the `=` in `key=value`.
    static func equalsSign(_ line: Span<UInt8>) throws(UAPILineError) -> Int {
        guard let equals = ASCII.firstIndex(of: UInt8(ascii: "="), in: line) else {
            throw UAPILineError("the line has no =", fix: "send key=value", errno: .protocolError)
        }
        return equals
    }

    static func key(_ value: Span<UInt8>) throws(UAPILineError) -> Bytes32 {
        guard let key = HexKey.bytes(value) else {
            throw UAPILineError(
                value.count == 64
                    ? "the key is not hexadecimal" : "a key has 64 hexadecimal digits, this has \(value.count)",
                fix: "send the 32 bytes of the key as hexadecimal digits")
        }
        return key
    }

    static func number(_ value: Span<UInt8>, limit: UInt64) throws(UAPILineError) -> UInt64 {
        switch ASCII.unsigned(value, limit: limit) {
        case .value(let number): return number
        case .tooLarge:
            throw UAPILineError("the number is larger than \(limit)", fix: "send a decimal number from 0 to \(limit)")
        case .notANumber:
            throw UAPILineError("the value is not a decimal number", fix: "send a decimal number from 0 to \(limit)")
        }
    }

    static func flag(_ value: Span<UInt8>) throws(UAPILineError) {
        guard ASCII.equal(value, "true") else {
            throw UAPILineError("this key has no other value than true", fix: "send true, or leave the line out")
        }
    }

    static func protocolVersion(_ value: Span<UInt8>) throws(UAPILineError) {
        guard ASCII.equal(value, "1") else {
            throw UAPILineError("the only protocol version is 1", fix: "send 1, or leave the line out")
        }
    }

    static func prefix(_ value: Span<UInt8>) throws(UAPILineError) -> IPPrefix {
        guard ASCII.firstIndex(of: UInt8(ascii: "/"), in: value) != nil else {
            throw UAPILineError(
                "there is no prefix length", fix: "send a network such as 10.0.0.0/8, 10.0.0.1/32 or ::/0")
        }
        do throws(AddressTextError) {
            return try IPPrefix(utf8: value)
        } catch {
            throw UAPILineError(error.reason, fix: "send a network such as 10.0.0.0/8 or ::/0")
        }
    }

    static func endpoint(
        _ value: Span<UInt8>, resolveZone: (String) -> UInt32?
    ) throws(UAPILineError) -> Endpoint {
        do throws(AddressTextError) {
            return try Endpoint(utf8: value, resolveZone: resolveZone)
        } catch {
            throw UAPILineError(
                error.reason, fix: "send an address and a port such as 192.0.2.1:51820 or [2001:db8::1]:51820")
        }
    }

    /// Returns the line with a placeholder for everything that is or could be a key.
    static func redacted(_ line: Span<UInt8>) -> String {
        let name = line.extracting(0..<(ASCII.firstIndex(of: UInt8(ascii: "="), in: line) ?? 0))
        for key in ["private_key", "preshared_key"] as [StaticString] where ASCII.equal(name, key) {
            return "\(key)=\(Redaction.placeholder)"
        }
        return Redaction.text(line)
    }
}

extension UAPIDeviceUpdate {
    /// Applies one line of a `set=1` request.
    mutating func apply(_ line: Span<UInt8>, resolveZone: (String) -> UInt32?) throws(UAPILineError) {
        let equals = try UAPILine.equalsSign(line)
        let key = line.extracting(0..<equals)
        let value = line.extracting((equals + 1)..<line.count)
        if peers.isEmpty {
            try applyToDevice(key, value)
        } else {
            try applyToPeer(key, value, resolveZone)
        }
    }

    private mutating func beginPeer(_ value: Span<UInt8>) throws(UAPILineError) {
        peers.append(UAPIPeerUpdate(publicKey: PublicKey(try UAPILine.key(value))))
    }

    private mutating func applyToDevice(_ key: Span<UInt8>, _ value: Span<UInt8>) throws(UAPILineError) {
        if ASCII.equal(key, "public_key") {
            try beginPeer(value)
        } else if ASCII.equal(key, "private_key") {
            var bytes = try UAPILine.key(value)
            defer { bytes.wipe() }
            privateKey = bytes.isZero ? .clear : .set(PrivateKey(secret: Secret(bytes)))
        } else if ASCII.equal(key, "listen_port") {
            listenPort = UInt16(truncatingIfNeeded: try UAPILine.number(value, limit: UInt64(UInt16.max)))
        } else if ASCII.equal(key, "fwmark") {
            fwMark = UInt32(truncatingIfNeeded: try UAPILine.number(value, limit: UInt64(UInt32.max)))
        } else if ASCII.equal(key, "replace_peers") {
            try UAPILine.flag(value)
            replacePeers = true
        } else {
            throw UAPILineError(
                "the device has no such key",
                fix: "keys of peers come after a public_key, and keys of the device before the first")
        }
    }

    private mutating func applyToPeer(
        _ key: Span<UInt8>, _ value: Span<UInt8>, _ resolveZone: (String) -> UInt32?
    ) throws(UAPILineError) {
        let last = peers.count - 1
        // Check the most frequent key first.
        if ASCII.equal(key, "allowed_ip") {
            if value.count > 0, value[0] == UInt8(ascii: "-") {
                peers[last].allowedIPs.append(.remove(try UAPILine.prefix(value.extracting(1..<value.count))))
            } else {
                peers[last].allowedIPs.append(.add(try UAPILine.prefix(value)))
            }
        } else if ASCII.equal(key, "public_key") {
            try beginPeer(value)
        } else if ASCII.equal(key, "endpoint") {
            peers[last].endpoint = try UAPILine.endpoint(value, resolveZone: resolveZone)
        } else if ASCII.equal(key, "persistent_keepalive_interval") {
            let seconds = try UAPILine.number(value, limit: UInt64(UInt16.max))
            peers[last].persistentKeepalive = UInt16(truncatingIfNeeded: seconds)
        } else if ASCII.equal(key, "replace_allowed_ips") {
            try UAPILine.flag(value)
            peers[last].replaceAllowedIPs = true
            // Lines are applied in order, so this one reverts the earlier ones.
            peers[last].allowedIPs.removeAll()
        } else if ASCII.equal(key, "preshared_key") {
            var bytes = try UAPILine.key(value)
            defer { bytes.wipe() }
            peers[last].presharedKey = bytes.isZero ? .clear : .set(PresharedKey(secret: Secret(bytes)))
        } else if ASCII.equal(key, "update_only") {
            try UAPILine.flag(value)
            peers[last].updateOnly = true
        } else if ASCII.equal(key, "remove") {
            try UAPILine.flag(value)
            peers[last].remove = true
        } else if ASCII.equal(key, "protocol_version") {
            try UAPILine.protocolVersion(value)
        } else {
            throw UAPILineError(
                "a peer has no such key",
                fix: "keys of the device come before the first public_key; spaces are not allowed")
        }
    }
}
