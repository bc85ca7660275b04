// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension ConfigurationParser {
    mutating func read(_ key: ConfigurationKey, _ value: Range<Int>) {
        let peer = peers.count - 1
        switch key {
        case .privateKey:
            guard let privateKey = secret(value, PrivateKey.init(base64:), .privateKey) else { return }
            if !privateKey.isZero {
                interface.privateKey = privateKey
            } else if privateKeyRule == .required {
                report(
                    .zeroKey, value, "all bits of this PrivateKey are zero", fix: "make a key with wg genkey",
                    isSecret: true)
            } else {
                zeroPrivateKey = place(value)
            }
        case .listenPort: interface.listenPort = number(value, key, 0...65535).map { UInt16(truncatingIfNeeded: $0) }
        case .fwMark: interface.fwMark = mark(value)
        case .address: readAddresses(value)
        case .dns: readDNS(value)
        case .mtu:
            let limits = InterfaceConfiguration.mtuRange
            interface.mtu = number(value, key, UInt64(limits.lowerBound)...UInt64(limits.upperBound))
                .map { UInt16(truncatingIfNeeded: $0) }
        case .table: interface.table = table(value) ?? interface.table
        case .preUp: interface.preUp.append(command(value))
        case .postUp: interface.postUp.append(command(value))
        case .preDown: interface.preDown.append(command(value))
        case .postDown: interface.postDown.append(command(value))
        case .saveConfig: interface.saveConfig = boolean(value) ?? false
        case .publicKey:
            if peer >= 0 { readPublicKey(value, of: peer) }
        case .presharedKey:
            // In the protocol a key of zeros means that there is no key.
            let presharedKey = secret(value, PresharedKey.init(base64:), .presharedKey)
            if peer >= 0, let presharedKey, !presharedKey.isZero { peers[peer].presharedKey = presharedKey }
        case .allowedIPs:
            if peer >= 0 { readAllowedIPs(value, of: peer) }
        case .endpoint:
            if peer >= 0 { peers[peer].endpoint = endpoint(value) }
        case .persistentKeepalive:
            guard peer >= 0 else { return }
            peers[peer].persistentKeepalive =
                isWord(value, "off") ? 0 : number(value, key, 0...65535).map { UInt16(truncatingIfNeeded: $0) }
        }
    }

    // MARK: - Keys

    private mutating func secret<Key>(
        _ value: Range<Int>, _ decode: (String) -> Key?, _ key: ConfigurationKey
    ) -> Key? {
        guard let text = single(value, isSecret: key.isSecret) else { return nil }
        if let key = decode(String(decoding: text, as: UTF8.self)) { return key }
        let reason: String
        let fix: String
        if text.count == 64, case .value = hexadecimalShape(text.span) {
            reason = "this \(key.rawValue) is in hexadecimal"
            fix = "write the key in base64: 44 characters, the last of them ="
        } else if text.count != 44 {
            reason = "\(key.rawValue) has 44 characters of base64, this has \(text.count)"
            fix = "copy the whole key, with the = at its end"
        } else {
            reason = "\(key.rawValue) is not the base64 of 32 bytes"
            fix = "copy the key again; it has letters, digits, + and /, and one = at its end"
        }
        report(.invalidKey, value, reason, fix: fix, isSecret: key.isSecret)
        return nil
    }

    private func hexadecimalShape(_ text: Span<UInt8>) -> ASCII.Number {
        for index in 0..<text.count where ASCII.hexadecimal(text[index]) == nil { return .notANumber(index) }
        return .value(0)
    }

    private mutating func readPublicKey(_ value: Range<Int>, of peer: Int) {
        guard let key = secret(value, PublicKey.init(base64:), .publicKey) else { return }
        guard !key.isZero else {
            report(.zeroKey, value, "all bits of this PublicKey are zero", fix: "write the peer's public key")
            return
        }
        if let first = peerLines[key] {
            report(
                .repeatedPeer, value, "the peer on line \(first) has the same PublicKey",
                fix: "delete one of the two peers, or correct its key")
        } else {
            peerLines[key] = line
        }
        peers[peer].publicKey = key
    }

    // MARK: - Lists

    /// Returns the items between commas, without surrounding white space. Reports empty items.
    private mutating func items(_ value: Range<Int>) -> [Range<Int>] {
        guard !value.isEmpty else { return [] }
        var items: [Range<Int>] = []
        var start = value.lowerBound
        while true {
            let end = value[start...].first { bytes[$0] == UInt8(ascii: ",") } ?? value.upperBound
            let item = trimmed(start..<end)
            if item.isEmpty {
                let comma = end < value.upperBound ? end..<(end + 1) : (start - 1)..<start
                report(
                    .emptyListItem, comma, "an item of the list is empty",
                    fix: "delete the comma, or add the missing item")
            } else {
                items.append(item)
            }
            guard end < value.upperBound else { return items }
            start = end + 1
        }
    }

    /// Returns the words of the items, because wg-quick also permits spaces between the items of a list.
    private mutating func words(_ value: Range<Int>) -> [Range<Int>] {
        items(value).flatMap { item in
            var words: [Range<Int>] = []
            var start = item.lowerBound
            for index in item where ASCII.isSpace(bytes[index]) {
                if index > start { words.append(start..<index) }
                start = index + 1
            }
            words.append(start..<item.upperBound)
            return words
        }
    }

    private mutating func readAddresses(_ value: Range<Int>) {
        for word in words(value) {
            do throws(AddressTextError) {
                let address = try InterfaceAddress(utf8: bytes[word].span)
                if address.address.isUnspecified {
                    report(
                        .invalidAddress, word, "an interface cannot have this address",
                        fix:
                            "write the address that the other side gave to this device; networks to reach go to AllowedIPs"
                    )
                } else if interface.addresses.contains(where: { $0.address == address.address }) {
                    report(
                        .repeatedAddress, word, "the interface has this address already", fix: "delete one of the two")
                } else {
                    interface.addresses.append(address)
                }
            } catch {
                report(.invalidAddress, at: word, error, fix: "write an address such as 10.0.0.2/32 or fd00::2/128")
            }
        }
    }

    private mutating func readDNS(_ value: Range<Int>) {
        for word in words(value) {
            let text = bytes[word]
            do throws(AddressTextError) {
                if text.contains(UInt8(ascii: ":")) || HostNameSyntax.endsInNumber(text.span) {
                    interface.dnsServers.append(try IPAddress(utf8: text.span))
                } else {
                    try HostNameSyntax.check(text.span)
                    interface.dnsSearchDomains.append(String(decoding: text, as: UTF8.self))
                }
            } catch {
                report(
                    .invalidDNS, at: word, error,
                    fix: "write a server's address such as 10.0.0.1, or a search domain such as corp.example")
            }
        }
    }

    private mutating func readAllowedIPs(_ value: Range<Int>, of peer: Int) {
        for item in items(value) {
            guard let text = single(item, joining: "/+-".utf8) else { continue }
            let sign = text[0] == UInt8(ascii: "+") || text[0] == UInt8(ascii: "-") ? 1 : 0
            do throws(AddressTextError) {
                let written = try InterfaceAddress(utf8: text[sign..<text.count].span)
                let prefix = written.network
                if prefix.address != written.address {
                    report(
                        .hostBits, at: place(item), showing: Redaction.text(bytes[item].span),
                        "bits of the address beyond the prefix length are dropped",
                        fix: "write \(prefix) for the network, or \(written.address) for the one address",
                        severity: .warning)
                }
                if sign == 1 { peers[peer].isIncremental = true }
                if text[0] == UInt8(ascii: "-") {
                    peers[peer].changes.append(.remove(prefix))
                } else {
                    peers[peer].changes.append(.add(prefix))
                    warnIfShared(prefix, item, peer)
                }
            } catch {
                report(
                    .invalidAllowedIP, at: item, text.count == item.count ? error.moved(by: sign) : nil,
                    reason: error.reason,
                    fix: "write a network such as 10.0.0.0/8 or ::/0; commas part networks")
            }
        }
    }

    private mutating func warnIfShared(_ prefix: IPPrefix, _ item: Range<Int>, _ peer: Int) {
        if let other = allowedIPPeers[prefix], other.peer != peer {
            report(
                .sharedAllowedIP, at: place(item), showing: Redaction.text(bytes[item].span),
                "the peer with line \(other.line) has this network too; only the later one keeps it",
                fix: "give each network to one peer", severity: .warning)
        }
        allowedIPPeers[prefix] = (peer, line)
    }

    /// Reports an address parser's error at the character where it occurred.
    private mutating func report(
        _ code: ConfigurationError.Code, at item: Range<Int>, _ error: AddressTextError?, reason: String = "",
        fix: String
    ) {
        let start = error.map { min(item.lowerBound + $0.offset, item.upperBound) } ?? item.lowerBound
        report(
            code, at: place(start..<item.upperBound), showing: Redaction.text(bytes[item].span),
            error?.reason ?? reason, fix: fix)
    }

    // MARK: - Single values

    /// Returns the bytes of a value that is a single item. White space next to a character of `separators` is dropped,
    /// as `wg` does. White space between two words, which `wg` would join, is an error.
    private mutating func single(
        _ value: Range<Int>, joining separators: some Sequence<UInt8> = EmptyCollection<UInt8>(), isSecret: Bool = false
    ) -> ContiguousArray<UInt8>? {
        var text: ContiguousArray<UInt8> = []
        var space: Int?
        for index in value {
            let byte = bytes[index]
            if ASCII.isSpace(byte) {
                space = space ?? index
                continue
            }
            if let space, let last = text.last, !separators.contains(last), !separators.contains(byte) {
                let place = place(space..<index)
                report(
                    .spaceInsideValue, at: place,
                    showing: isSecret ? Redaction.placeholder : Redaction.text(bytes[value].span),
                    "a space is inside the value, and wg would join the two parts",
                    fix: "delete the space; commas part the items of a list")
                return nil
            }
            space = nil
            text.append(byte)
        }
        return text
    }

    private func isWord(_ value: Range<Int>, _ word: StaticString) -> Bool {
        let lowercased = ContiguousArray(value.map { ASCII.lowercased(bytes[$0]) })
        return ASCII.equal(lowercased.span, word)
    }

    private mutating func number(_ value: Range<Int>, _ key: ConfigurationKey, _ limits: ClosedRange<UInt64>) -> UInt64?
    {
        guard let text = single(value) else { return nil }
        let off = key == .persistentKeepalive ? ", or off" : ""
        let fix =
            key == .mtu
            ? "write a number such as 1420, or delete the line so that the MTU is worked out"
            : "write a decimal number from \(limits.lowerBound) to \(limits.upperBound)\(off)"
        switch ASCII.unsigned(text.span, limit: limits.upperBound) {
        case .value(let number) where number >= limits.lowerBound: return number
        case .value:
            report(.invalidNumber, value, "\(key.rawValue) is at least \(limits.lowerBound)", fix: fix)
        case .tooLarge:
            report(.invalidNumber, value, "\(key.rawValue) is at most \(limits.upperBound)", fix: fix)
        case .notANumber:
            report(.invalidNumber, value, "\(key.rawValue) is a decimal number\(off)", fix: fix)
        }
        return nil
    }

    private mutating func mark(_ value: Range<Int>) -> UInt32? {
        if isWord(value, "off") { return 0 }
        guard let text = single(value) else { return nil }
        let isHexadecimal = text.starts(with: "0x".utf8)
        let digits = text[(isHexadecimal ? 2 : 0)..<text.count].span
        let limit = UInt64(UInt32.max)
        if case .value(let mark) = ASCII.unsigned(digits, radix: isHexadecimal ? 16 : 10, limit: limit) {
            return UInt32(truncatingIfNeeded: mark)
        }
        report(
            .invalidNumber, value, "FwMark is a number of 32 bits",
            fix: "write a decimal number, a hexadecimal one such as 0xca6c, or off")
        return nil
    }

    private mutating func table(_ value: Range<Int>) -> RouteTable? {
        if isWord(value, "auto") { return .automatic }
        if isWord(value, "off") { return .off }
        guard let text = single(value) else { return nil }
        switch ASCII.unsigned(text.span, limit: UInt64(UInt32.max)) {
        case .value(let number): return .number(UInt32(truncatingIfNeeded: number))
        case .notANumber where RouteTable.isName(text): return .named(String(decoding: text, as: UTF8.self))
        case .tooLarge, .notANumber:
            report(
                .invalidTable, value, "this is not the number or name of a routing table",
                fix: "write auto, off, a number, or a name from /etc/iproute2/rt_tables")
            return nil
        }
    }

    private mutating func boolean(_ value: Range<Int>) -> Bool? {
        if isWord(value, "true") { return true }
        if isWord(value, "false") { return false }
        report(.invalidBoolean, value, "SaveConfig is neither true nor false", fix: "write true or false")
        return nil
    }

    private mutating func endpoint(_ value: Range<Int>) -> EndpointAddress? {
        guard let text = single(value, joining: "[]:".utf8) else { return nil }
        do throws(AddressTextError) {
            return try EndpointAddress(utf8: text.span)
        } catch {
            report(
                .invalidEndpoint, at: value, text.count == value.count ? error : nil, reason: error.reason,
                fix: "write host:port, such as vpn.example.com:51820 or [2001:db8::1]:51820")
            return nil
        }
    }

    /// Reads the command of a hook. In a line, vertical tabs and form feeds separate words as spaces do. In a command
    /// they are control characters, which a written file must not contain.
    private mutating func command(_ value: Range<Int>) -> String {
        if let index = value.first(where: { bytes[$0] == 11 || bytes[$0] == 12 }) { reportControlCharacter(index) }
        return ASCII.string(bytes[value].span)
    }
}

extension RouteTable {
    /// Whether a name is valid in a file and on a command line. It must start with a letter and contain only letters,
    /// digits, `_`, `.` and `-`.
    static func isName(_ text: some Collection<UInt8>) -> Bool {
        guard let first = text.first, ASCII.isLetter(first), text.count <= 255 else { return false }
        return text.allSatisfy { ASCII.isAlphanumeric($0) || "_.-".utf8.contains($0) }
    }
}
