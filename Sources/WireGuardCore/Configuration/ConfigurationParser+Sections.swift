// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension ConfigurationParser {
    // MARK: - Sections

    mutating func readSection(_ content: Range<Int>) {
        seenKeys = [:]
        isInUnknownSection = false
        // Like `wg`, ignore white space anywhere.
        let name = content.map { bytes[$0] }.filter { !ASCII.isSpace($0) }
        let last = name.count - 1
        guard let bracket = name.firstIndex(of: UInt8(ascii: "]")), bracket == last else {
            report(
                .malformedSection, content, "a section is a name in brackets and nothing else",
                fix: "write [Interface] or [Peer] on a separate line")
            enter(
                ConfigurationSection.suggestion(for: Array(name.dropFirst().prefix { $0 != UInt8(ascii: "]") })),
                content)
            return
        }
        let inner = Array(name[1..<last])
        if let known = ConfigurationSection.allCases.first(where: {
            $0.rawValue.utf8.elementsEqual(inner) { ASCII.lowercased($0) == ASCII.lowercased($1) }
        }) {
            if known == .interface, let first = interfaceHeader {
                report(
                    .repeatedInterface, content, "there is already an [Interface] on line \(first.line)",
                    fix: "put all settings of the interface into one section")
            }
            enter(known, content)
        } else {
            let meant = ConfigurationSection.suggestion(for: inner)
            report(
                .unknownSection, content, "there is no such section",
                fix: meant.map { "did you mean [\($0.rawValue)]?" } ?? "write [Interface] or [Peer]")
            enter(meant, content)
        }
    }

    private mutating func enter(_ section: ConfigurationSection?, _ content: Range<Int>) {
        self.section = section
        switch section {
        case .interface: if interfaceHeader == nil { interfaceHeader = place(content) }
        case .peer: peers.append(PeerDraft(header: place(content)))
        case nil: isInUnknownSection = true
        }
    }

    // MARK: - Settings

    mutating func readSetting(_ content: Range<Int>) {
        let wasBroken = followsBrokenSecret
        followsBrokenSecret = false
        guard let equals = ASCII.firstIndex(of: UInt8(ascii: "="), in: bytes[content].span) else {
            reportMissingEqualsSign(content, isSecret: wasBroken)
            return
        }
        let name = trimmed(content.lowerBound..<(content.lowerBound + equals))
        let value = trimmed((content.lowerBound + equals + 1)..<content.upperBound)
        guard let key = ConfigurationKey(bytes[name].span) else {
            reportUnknownKey(name, isSecret: wasBroken)
            return
        }
        guard let section else {
            if !isInUnknownSection {
                report(
                    .keyBeforeSection, name, "\(key.rawValue) is before the first section",
                    fix: "put [\(key.section.rawValue)] on a line above it")
            }
            return
        }
        guard key.section == section else {
            report(
                .wrongSection, name,
                "\(key.rawValue) belongs to [\(key.section.rawValue)], not to [\(section.rawValue)]",
                fix: key == .publicKey
                    ? "delete it (the interface's public key follows from its PrivateKey), or put [Peer] above it"
                    : "move the line into the [\(key.section.rawValue)] section")
            return
        }
        recordKey(key)
        if !key.accumulates {
            if let first = seenKeys[key] {
                report(
                    .repeatedKey, name, "\(key.rawValue) is already on line \(first) of this section",
                    fix: key == .publicKey
                        ? "put [Peer] above it if another peer begins here" : "keep one of the two lines")
            } else {
                seenKeys[key] = line
            }
        }
        guard !value.isEmpty || key.mayBeEmpty else {
            report(
                .emptyValue, value, "\(key.rawValue) has no value", fix: "write a value after the = or delete the line")
            return
        }
        let errorCount = errors.count
        read(key, value)
        followsBrokenSecret = key.isSecret && errors.count > errorCount
    }

    /// Records that a line was meant to set a mandatory key, so that its absence is not reported.
    private mutating func recordKey(_ key: ConfigurationKey?) {
        if key == .privateKey { namesPrivateKey = true }
        if key == .publicKey, !peers.isEmpty { peers[peers.count - 1].namesPublicKey = true }
    }

    private mutating func reportMissingEqualsSign(_ content: Range<Int>, isSecret: Bool) {
        let word = content.prefix { !ASCII.isSpace(bytes[$0]) }
        let key = ConfigurationKey.suggestion(for: bytes[word].span)
        recordKey(key)
        let fix: String
        if bytes[content.lowerBound] == UInt8(ascii: ";") {
            fix = "start a comment with #"
        } else if isSecret {
            fix = "if this is the rest of the key on the line above, put both on one line"
        } else if let key {
            fix = "write \(key.rawValue) = and the value"
        } else {
            fix = "write a key, = and a value, or start the line with # if it is a comment"
        }
        // Without a `=` it is not clear which part is the key and which may be a secret.
        let mayBeSecret = isSecret || key?.isSecret == true || mayHoldSecret(content)
        followsBrokenSecret = key?.isSecret == true
        report(.missingEqualsSign, content, "the line has no =", fix: fix, isSecret: mayBeSecret)
    }

    private mutating func reportUnknownKey(_ name: Range<Int>, isSecret: Bool) {
        guard !isInUnknownSection else { return }
        guard !name.isEmpty else {
            report(.unknownKey, name, "there is no key before the =", fix: "write a key before the =")
            return
        }
        let meant = ConfigurationKey.suggestion(for: bytes[name].span)
        if meant?.section == section { recordKey(meant) }
        followsBrokenSecret = meant?.isSecret == true
        let list = section.map { section in
            "use one of "
                + ConfigurationKey.allCases.filter { $0.section == section }.map(\.rawValue).joined(separator: ", ")
        }
        report(
            .unknownKey, name, "there is no such key",
            fix: meant.map { "did you mean \($0.rawValue)?" } ?? list
                ?? "put [Interface] or [Peer] above, and a key of theirs here",
            isSecret: isSecret && meant == nil || mayHoldSecret(name))
    }

    /// Whether an unknown word may be part of a key: it contains digits, or characters that names do not contain.
    private func mayHoldSecret(_ range: Range<Int>) -> Bool {
        range.count >= 12
            && range.contains { index in
                let byte = bytes[index]
                return ASCII.decimal(byte) != nil || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
            }
            && !range.contains { bytes[$0] == UInt8(ascii: ".") || bytes[$0] == UInt8(ascii: ":") }
    }

    // MARK: - The whole file

    private var requiresPrivateKey: Bool {
        switch privateKeyRule {
        case .required: true
        case .requiredWithoutPostUp: interface.postUp.isEmpty
        case .optional: false
        }
    }

    /// Makes the checks that need the whole file.
    mutating func finish() {
        guard !hasUnreadableLine else { return }
        if interfaceHeader == nil {
            let top = ConfigurationPlace(line: 1, column: 1, range: 0..<0)
            if peers.isEmpty, errors.isEmpty {
                report(
                    .emptyFile, at: top, showing: "", "the file has no settings",
                    fix: "write an [Interface] section and its keys")
            } else if !errors.contains(where: { $0.code == .unknownSection || $0.code == .malformedSection }) {
                report(
                    .missingInterface, at: top, showing: "", "the file has no [Interface] section",
                    fix: "write [Interface] and the keys of this side")
            }
        } else if let header = interfaceHeader, requiresPrivateKey, !namesPrivateKey {
            report(
                .missingPrivateKey, at: header, showing: "[Interface]", "the interface has no PrivateKey",
                fix: "add PrivateKey = and the output of wg genkey")
        }
        if let zeroPrivateKey, requiresPrivateKey {
            report(
                .zeroKey, at: zeroPrivateKey, showing: Redaction.placeholder, "all bits of this PrivateKey are zero",
                fix: "make a key with wg genkey")
        }
        for peer in peers where !peer.namesPublicKey {
            report(
                .missingPublicKey, at: peer.header, showing: "[Peer]", "this peer has no PublicKey",
                fix: "add PublicKey = and the peer's key, or delete the section")
        }
    }
}
