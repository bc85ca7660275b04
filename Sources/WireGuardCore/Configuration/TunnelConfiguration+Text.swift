// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The error of a configuration that cannot be written as a wg-quick file, because parsing the file would result in
/// another configuration.
public struct UnwritableConfiguration: Error, Hashable, Sendable, CustomStringConvertible {
    /// The key whose value cannot be written.
    public let key: String
    /// The reason, as a clause without capital or full stop. It does not repeat the value.
    public let reason: String

    /// ``key`` and ``reason``.
    public var description: String { "\(key) cannot be written: \(reason)" }
}

extension TunnelConfiguration {
    /// The configuration as a wg-quick file, **including private and pre-shared keys**. Store it so that only its owner
    /// can read it.
    ///
    /// Parsing the text results in an equal configuration. Comments of a parsed file are lost.
    /// - Throws: ``UnwritableConfiguration`` if a value contains characters that would end the line, start a comment or
    ///   split an item, and so change the meaning of the file.
    public func wgQuickText() throws(UnwritableConfiguration) -> String {
        let privateKey = interface.privateKey.flatMap { $0.isZero ? nil : $0.exportedBase64 }
        return try wgQuickText(privateKey: privateKey) { peer in
            peer.presharedKey.flatMap { $0.isZero ? nil : $0.exportedBase64 }
        }
    }

    /// The configuration as a wg-quick file with other texts instead of its keys.
    /// - Parameters:
    ///   - privateKey: The value of `PrivateKey`, or `nil` to omit the line.
    ///   - presharedKey: Returns the value of `PresharedKey` of a peer, or `nil` to omit the line.
    package func wgQuickText(
        privateKey: String?, presharedKey: (PeerConfiguration) -> String?
    ) throws(UnwritableConfiguration) -> String {
        var text = "[Interface]\n"
        if let privateKey { text += "PrivateKey = \(privateKey)\n" }
        try interface.append(to: &text)
        guard Set(peers.map(\.publicKey)).count == peers.count else {
            throw UnwritableConfiguration(key: "PublicKey", reason: "two peers have the same")
        }
        for peer in peers {
            text += "\n[Peer]\n"
            try peer.append(presharedKey: presharedKey(peer), to: &text)
        }
        return text
    }
}

extension InterfaceConfiguration {
    fileprivate func append(to text: inout String) throws(UnwritableConfiguration) {
        if let listenPort { text += "ListenPort = \(listenPort)\n" }
        if let fwMark { text += "FwMark = \(fwMark == 0 ? "off" : "0x" + String(fwMark, radix: 16))\n" }
        guard Set(addresses.map(\.address)).count == addresses.count,
            !addresses.contains(where: \.address.isUnspecified)
        else {
            throw UnwritableConfiguration(key: "Address", reason: "an address is repeated or has only zeros")
        }
        if !addresses.isEmpty { text += "Address = \(addresses.map(\.description).joined(separator: ", "))\n" }
        if !dnsServers.isEmpty || !dnsSearchDomains.isEmpty {
            for domain in dnsSearchDomains {
                let bytes = ContiguousArray(domain.utf8)
                do throws(AddressTextError) {
                    try HostNameSyntax.check(bytes.span)
                } catch {
                    throw UnwritableConfiguration(key: "DNS", reason: "a search domain is malformed: \(error.reason)")
                }
            }
            text += "DNS = \((dnsServers.map(\.description) + dnsSearchDomains).joined(separator: ", "))\n"
        }
        if let mtu {
            guard InterfaceConfiguration.mtuRange.contains(mtu) else {
                throw UnwritableConfiguration(
                    key: "MTU", reason: "is below \(InterfaceConfiguration.mtuRange.lowerBound)")
            }
            text += "MTU = \(mtu)\n"
        }
        switch table {
        case .automatic: break
        case .off: text += "Table = off\n"
        case .number(let number): text += "Table = \(number)\n"
        case .named(let name):
            let lowercased = Array(name.utf8.map(ASCII.lowercased))
            guard RouteTable.isName(Array(name.utf8)), lowercased != Array("off".utf8), lowercased != Array("auto".utf8)
            else {
                throw UnwritableConfiguration(key: "Table", reason: "the name of the table is malformed or reserved")
            }
            text += "Table = \(name)\n"
        }
        try appendCommands(preUp, "PreUp", to: &text)
        try appendCommands(postUp, "PostUp", to: &text)
        try appendCommands(preDown, "PreDown", to: &text)
        try appendCommands(postDown, "PostDown", to: &text)
        if saveConfig { text += "SaveConfig = true\n" }
    }

    private func appendCommands(
        _ commands: [String], _ key: String, to text: inout String
    ) throws(UnwritableConfiguration) {
        for command in commands {
            let bytes = Array(command.utf8)
            guard let first = bytes.first, let last = bytes.last else {
                throw UnwritableConfiguration(key: key, reason: "the command is empty")
            }
            guard !ASCII.isSpace(first), !ASCII.isSpace(last) else {
                throw UnwritableConfiguration(key: key, reason: "the command starts or ends with white space")
            }
            guard !bytes.contains(UInt8(ascii: "#")) else {
                throw UnwritableConfiguration(key: key, reason: "the command has a #, which starts a comment")
            }
            let isPlain = command.unicodeScalars.allSatisfy { scalar in
                (scalar.value >= 32 || scalar.value == 9) && scalar.value != 127
                    && !UTF8Scalar.isInvisible(scalar.value)
            }
            guard isPlain else {
                throw UnwritableConfiguration(
                    key: key, reason: "the command has a line end or another control character")
            }
            text += "\(key) = \(command)\n"
        }
    }
}

extension PeerConfiguration {
    fileprivate func append(presharedKey: String?, to text: inout String) throws(UnwritableConfiguration) {
        guard !publicKey.isZero else {
            throw UnwritableConfiguration(key: "PublicKey", reason: "all its bits are zero")
        }
        text += "PublicKey = \(publicKey.base64)\n"
        if let presharedKey { text += "PresharedKey = \(presharedKey)\n" }
        let allowed: [String]
        switch allowedIPsRule {
        case .exactly(let prefixes): allowed = prefixes.map(\.description)
        case .changes(let changes):
            allowed = changes.map { change in
                switch change {
                case .add(let prefix): "+\(prefix)"
                case .remove(let prefix): "-\(prefix)"
                }
            }
        }
        if !allowed.isEmpty { text += "AllowedIPs = \(allowed.joined(separator: ", "))\n" }
        if let endpoint { text += "Endpoint = \(endpoint)\n" }
        if let persistentKeepalive {
            text += "PersistentKeepalive = \(persistentKeepalive == 0 ? "off" : String(persistentKeepalive))\n"
        }
    }
}
