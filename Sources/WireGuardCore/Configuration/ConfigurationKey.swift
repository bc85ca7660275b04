// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The keys of a wg-quick file.
enum ConfigurationKey: String, CaseIterable {
    case privateKey = "PrivateKey"
    case listenPort = "ListenPort"
    case fwMark = "FwMark"
    case address = "Address"
    case dns = "DNS"
    case mtu = "MTU"
    case table = "Table"
    case preUp = "PreUp"
    case postUp = "PostUp"
    case preDown = "PreDown"
    case postDown = "PostDown"
    case saveConfig = "SaveConfig"
    case publicKey = "PublicKey"
    case presharedKey = "PresharedKey"
    case allowedIPs = "AllowedIPs"
    case endpoint = "Endpoint"
    case persistentKeepalive = "PersistentKeepalive"

    var section: ConfigurationSection {
        switch self {
        case .publicKey, .presharedKey, .allowedIPs, .endpoint, .persistentKeepalive: .peer
        default: .interface
        }
    }

    /// Whether `wg` itself reads the key. `wg` removes white space inside a line; wg-quick does not.
    var belongsToWg: Bool {
        switch self {
        case .privateKey, .listenPort, .fwMark: true
        default: section == .peer
        }
    }

    /// Whether the values of several lines are combined.
    var accumulates: Bool {
        switch self {
        case .address, .dns, .preUp, .postUp, .preDown, .postDown, .allowedIPs: true
        default: false
        }
    }

    /// Whether the value may be empty. An empty list adds nothing.
    var mayBeEmpty: Bool { self == .address || self == .dns || self == .allowedIPs }

    var isCommand: Bool { self == .preUp || self == .postUp || self == .preDown || self == .postDown }

    var isSecret: Bool { self == .privateKey || self == .presharedKey }

    /// Returns the key that `text` names, in any case, and with spaces inside it if `wg` permits them; `nil` for other
    /// text.
    init?(_ text: Span<UInt8>) {
        var name: [UInt8] = []
        for index in 0..<text.count where !ASCII.isSpace(text[index]) { name.append(ASCII.lowercased(text[index])) }
        let hasSpaces = name.count != text.count
        guard let key = ConfigurationKey.byName[name], !hasSpaces || key.belongsToWg else { return nil }
        self = key
    }

    private static let byName = Dictionary(uniqueKeysWithValues: allCases.map { ($0.lowercased, $0) })

    var lowercased: [UInt8] { rawValue.utf8.map(ASCII.lowercased) }

    /// Returns the key that `text` probably means; `nil` if no key is similar.
    static func suggestion(for text: Span<UInt8>) -> ConfigurationKey? {
        var name: [UInt8] = []
        for index in 0..<min(text.count, 40) where ASCII.isAlphanumeric(text[index]) {
            name.append(ASCII.lowercased(text[index]))
        }
        guard name.count >= 2 else { return nil }
        if let known = synonyms[String(decoding: name, as: UTF8.self)] { return known }
        let nearest = allCases.map { (key: $0, distance: EditDistance.between(name, $0.lowercased)) }
            .min { $0.distance < $1.distance }
        guard let nearest, nearest.distance <= max(1, nearest.key.rawValue.utf8.count / 3) else { return nil }
        return nearest.key
    }

    // Names that users mistakenly write for these keys.
    private static let synonyms: [String: ConfigurationKey] = [
        "psk": .presharedKey, "preshared": .presharedKey, "sharedkey": .presharedKey, "secret": .privateKey,
        "secretkey": .privateKey, "key": .publicKey, "peer": .publicKey, "port": .listenPort, "mark": .fwMark,
        "firewallmark": .fwMark, "ip": .address, "ipaddress": .address, "addresses": .address, "nameserver": .dns,
        "nameservers": .dns, "dnsserver": .dns, "dnsservers": .dns, "search": .dns, "allowed": .allowedIPs,
        "allowedaddresses": .allowedIPs, "allowedaddress": .allowedIPs, "server": .endpoint, "host": .endpoint,
        "remote": .endpoint, "keepalive": .persistentKeepalive, "persistent": .persistentKeepalive, "save": .saveConfig,
    ]
}

enum ConfigurationSection: String, CaseIterable {
    case interface = "Interface"
    case peer = "Peer"

    /// Returns the section that `name` probably means.
    static func suggestion(for name: [UInt8]) -> ConfigurationSection? {
        let name = name.prefix(20).map(ASCII.lowercased)
        return allCases.first { EditDistance.between(name, $0.rawValue.utf8.map(ASCII.lowercased)) <= 2 }
    }
}

enum EditDistance {
    /// Returns the number of insertions, deletions and replacements that turn one text into the other.
    static func between(_ a: [UInt8], _ b: [UInt8]) -> Int {
        var row = Array(0...b.count)
        for (i, character) in a.enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for (j, other) in b.enumerated() {
                let replaced = diagonal + (character == other ? 0 : 1)
                diagonal = row[j + 1]
                row[j + 1] = min(replaced, diagonal + 1, row[j] + 1)
            }
        }
        return row[b.count]
    }
}
