// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension TunnelConfiguration {
    /// Parses a wg-quick file.
    ///
    /// The grammar is that of `wg` and `wg-quick`, but ambiguous input is an error:
    /// - Sections and keys are recognised in any case. `#` starts a comment anywhere in a line, even in the command of
    ///   a hook, as in wg-quick. Lines end in LF or CRLF.
    /// - The values of `Address`, `DNS`, `AllowedIPs` and the hooks accumulate over several lines. Any other key may
    ///   occur once in a section.
    /// - Items of `Address` and `DNS` are separated by commas or spaces, those of `AllowedIPs` by commas. An empty list
    ///   is permitted; an empty item is an error.
    /// - Other white space inside a value, which `wg` would remove, is an error if it separates two words.
    ///
    /// - Parameters:
    ///   - text: The contents of the file.
    ///   - name: The file's name, for errors.
    ///   - requiresPrivateKey: Whether a file without `PrivateKey` is an error. `wg setconf` accepts such a file;
    ///     starting a tunnel does not.
    /// - Throws: All errors in the file, line by line.
    public static func parse(
        _ text: String, name: String = "configuration", requiresPrivateKey: Bool = true
    ) throws(ConfigurationErrors) -> TunnelConfiguration {
        try parse(Array(text.utf8), name: name, requiresPrivateKey: requiresPrivateKey)
    }

    /// Parses a wg-quick file from its bytes, which should be UTF-8. See
    /// ``parse(_:name:requiresPrivateKey:)-(String,_,_)``.
    public static func parse(
        _ bytes: [UInt8], name: String = "configuration", requiresPrivateKey: Bool = true
    ) throws(ConfigurationErrors) -> TunnelConfiguration {
        try check(bytes, name: name, requiresPrivateKey: requiresPrivateKey).checked()
    }

    /// Parses a wg-quick file, and reports warnings as well as errors.
    public static func check(
        _ bytes: [UInt8], name: String = "configuration", requiresPrivateKey: Bool = true
    ) -> ConfigurationReport {
        check(bytes, name: name, privateKey: requiresPrivateKey ? .required : .optional)
    }

    /// Parses a wg-quick file, with a rule for its private key.
    package static func check(_ bytes: [UInt8], name: String, privateKey: PrivateKeyRule) -> ConfigurationReport {
        var parser = ConfigurationParser(bytes: bytes, file: name, privateKeyRule: privateKey)
        return parser.report()
    }
}

/// The condition under which a file must have a private key.
package enum PrivateKeyRule {
    case required
    /// The file must have one, unless it has a `PostUp` command, which may set the key.
    case requiredWithoutPostUp
    case optional
}

/// A position in the file.
struct ConfigurationPlace {
    var line: Int
    var column: Int
    /// Its offsets in the file.
    var range: Range<Int>
}

/// The part of a `[Peer]` section that has been read.
struct PeerDraft {
    var header: ConfigurationPlace
    var publicKey: PublicKey?
    var presharedKey: PresharedKey?
    var changes: [AllowedIPChange] = []
    var isIncremental = false
    var endpoint: EndpointAddress?
    var persistentKeepalive: UInt16?
    /// Whether a line was meant to set the public key, so that its absence is not reported too.
    var namesPublicKey = false
}

/// Parses one file, line by line, and collects its errors.
struct ConfigurationParser {
    let bytes: [UInt8]
    let file: String
    let privateKeyRule: PrivateKeyRule

    var line = 0
    var lineStart = 0
    /// The section of the current line; `nil` before the first section and in unknown ones.
    var section: ConfigurationSection?
    var isInUnknownSection = false
    /// The line of each key in the current section that may occur only once.
    var seenKeys: [ConfigurationKey: Int] = [:]
    var interface = InterfaceConfiguration()
    var interfaceHeader: ConfigurationPlace?
    var namesPrivateKey = false
    /// The place of a private key of zeros, which counts as no key.
    var zeroPrivateKey: ConfigurationPlace?
    var peers: [PeerDraft] = []
    var peerLines: [PublicKey: Int] = [:]
    var allowedIPPeers: [IPPrefix: (peer: Int, line: Int)] = [:]
    /// Whether a line was unreadable. A key that seems to be missing may be on it.
    var hasUnreadableLine = false
    /// Whether the last line had an incomplete secret. A line that is not understood is then probably the rest of it.
    var followsBrokenSecret = false
    var errors: [ConfigurationError] = []
    var warnings: [ConfigurationError] = []

    init(bytes: [UInt8], file: String, privateKeyRule: PrivateKeyRule) {
        self.bytes = bytes
        self.file = file
        self.privateKeyRule = privateKeyRule
    }

    mutating func report() -> ConfigurationReport {
        if readLines() { finish() }
        // Errors about whole sections were added last and may belong before other errors. Sorting keeps the order
        // within a line.
        let sorted = errors.enumerated().sorted { a, b in
            (a.element.line, a.offset) < (b.element.line, b.offset)
        }.map(\.element)
        var configuration: TunnelConfiguration?
        if sorted.isEmpty {
            configuration = TunnelConfiguration(interface: interface, peers: peers.compactMap(ConfigurationParser.peer))
        }
        return ConfigurationReport(configuration: configuration, errors: sorted, warnings: warnings)
    }

    private static func peer(_ draft: PeerDraft) -> PeerConfiguration? {
        guard let publicKey = draft.publicKey else { return nil }
        var peer = PeerConfiguration(
            publicKey: publicKey, presharedKey: draft.presharedKey, endpoint: draft.endpoint,
            persistentKeepalive: draft.persistentKeepalive)
        if draft.isIncremental {
            peer.allowedIPsRule = .changes(draft.changes)
        } else {
            peer.allowedIPs = draft.changes.compactMap { change in
                if case .add(let prefix) = change { prefix } else { nil }
            }
        }
        return peer
    }

    // MARK: - Reporting

    func place(_ range: Range<Int>) -> ConfigurationPlace {
        ConfigurationPlace(line: line, column: range.lowerBound - lineStart + 1, range: range)
    }

    mutating func report(
        _ code: ConfigurationError.Code, _ range: Range<Int>, _ reason: String, fix: String, isSecret: Bool = false
    ) {
        let text = isSecret && !range.isEmpty ? Redaction.placeholder : Redaction.text(bytes[range].span)
        report(code, at: place(range), showing: text, reason, fix: fix)
    }

    mutating func report(
        _ code: ConfigurationError.Code, at place: ConfigurationPlace, showing text: String, _ reason: String,
        fix: String, severity: ConfigurationError.Severity = .error
    ) {
        let error = ConfigurationError(
            code: code, severity: severity, file: file, line: place.line, column: place.column, offendingText: text,
            reason: reason, fix: fix)
        if severity == .error { errors.append(error) } else { warnings.append(error) }
    }

    // MARK: - Lines

    /// Reads all lines. Returns `false` if the file is not text, so that no further errors are reported.
    private mutating func readLines() -> Bool {
        line = 1
        if bytes.starts(with: [0xff, 0xfe]) || bytes.starts(with: [0xfe, 0xff]) {
            let text = Redaction.escapes(bytes[0..<2].span)
            report(
                .notUTF8, at: place(0..<2), showing: text, "the file is in UTF-16",
                fix: "save the file as UTF-8 without BOM")
            return false
        }
        if bytes.starts(with: [0xef, 0xbb, 0xbf]) {
            report(
                .byteOrderMark, at: place(0..<3), showing: Redaction.escapes(bytes[0..<3].span),
                "the file starts with a byte order mark, which wg does not skip",
                fix: "save the file as UTF-8 without BOM")
            lineStart = 3
        }
        var start = lineStart
        lineStart = 0
        while start < bytes.count {
            let end = ASCII.firstIndex(of: ASCII.newline, in: bytes[bytes.indices].span, from: start) ?? bytes.count
            readLine(start..<end)
            guard end < bytes.count - 1 else { break }
            start = end + 1
            lineStart = start
            line += 1
        }
        return true
    }

    private mutating func readLine(_ whole: Range<Int>) {
        var content = whole
        if let last = content.last, bytes[last] == ASCII.carriageReturn { content = content.dropLast() }
        guard isReadable(content) else {
            hasUnreadableLine = true
            return
        }
        let comment = ASCII.firstIndex(of: UInt8(ascii: "#"), in: bytes[content].span) ?? content.count
        content = trimmed(content.lowerBound..<(content.lowerBound + comment))
        guard let first = content.first else { return }
        let followedBrokenSecret = followsBrokenSecret
        if bytes[first] == UInt8(ascii: "[") {
            followsBrokenSecret = false
            readSection(content)
        } else {
            readSetting(content)
            // Keep the flag over all lines that an incomplete key may be wrapped to.
            if followedBrokenSecret, errors.last?.line == line,
                errors.last?.code == .missingEqualsSign
                    || errors.last?.code == .unknownKey
            {
                followsBrokenSecret = true
            }
        }
    }

    func trimmed(_ range: Range<Int>) -> Range<Int> {
        var lower = range.lowerBound
        var upper = range.upperBound
        while lower < upper, ASCII.isSpace(bytes[lower]) { lower += 1 }
        while upper > lower, ASCII.isSpace(bytes[upper - 1]) { upper -= 1 }
        return lower..<upper
    }

    /// Whether a line is UTF-8 without control characters, and has no invisible characters before a comment.
    private mutating func isReadable(_ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        var isComment = false
        while index < range.upperBound {
            let byte = bytes[index]
            if byte < 128 {
                if byte == UInt8(ascii: "#") { isComment = true }
                if byte < 32 && byte != 9 && byte != 11 && byte != 12 || byte == 127 {
                    reportControlCharacter(index)
                    return false
                }
                index += 1
                continue
            }
            guard let (scalar, count) = UTF8Scalar.decode(bytes[bytes.indices].span, at: index, end: range.upperBound)
            else {
                report(
                    .notUTF8, at: place(index..<(index + 1)),
                    showing: Redaction.escapes(bytes[index..<(index + 1)].span),
                    "the line is not UTF-8 from here on", fix: "save the file as UTF-8")
                return false
            }
            if !isComment, UTF8Scalar.isInvisible(scalar) {
                report(
                    .invisibleCharacter, at: place(index..<(index + count)),
                    showing: "U+" + String(scalar, radix: 16, uppercase: true),
                    "an invisible character or a special space is here, often from a web page",
                    fix: "delete the line and type it again")
                return false
            }
            index += count
        }
        return true
    }

    mutating func reportControlCharacter(_ index: Int) {
        let text = Redaction.escapes(bytes[index..<(index + 1)].span)
        if bytes[index] == ASCII.carriageReturn {
            report(
                .controlCharacter, at: place(index..<(index + 1)), showing: text,
                "a carriage return is inside the line",
                fix: "save the file with line ends of LF or CRLF")
        } else {
            report(
                .controlCharacter, at: place(index..<(index + 1)), showing: text, "a control character is here",
                fix: "delete it, or save the file as UTF-8 text")
        }
    }
}

/// Decodes UTF-8 (RFC 3629).
enum UTF8Scalar {
    /// The scalar value at `index` and the number of its bytes, or `nil` if the bytes are not UTF-8.
    static func decode(_ bytes: Span<UInt8>, at index: Int, end: Int) -> (scalar: UInt32, count: Int)? {
        let lead = UInt32(bytes[index])
        let count = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0
        guard count > 0, end - index >= count else { return nil }
        var scalar = count == 1 ? lead : lead & (0x7f >> UInt32(count))
        for offset in 1..<max(count, 1) {
            let next = UInt32(bytes[index + offset])
            guard next & 0xc0 == 0x80 else { return nil }
            scalar = scalar << 6 | next & 0x3f
        }
        let isOverlong = count == 3 && scalar < 0x800 || count == 4 && scalar < 0x10000
        guard !isOverlong, scalar <= 0x10ffff, !(0xd800...0xdfff).contains(scalar) else { return nil }
        return (scalar, count)
    }

    /// Whether a character is a space outside ASCII, or one that has no width or only affects the direction of text.
    static func isInvisible(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0x80...0xa0, 0xad, 0x1680, 0x2000...0x200f, 0x2028...0x202f, 0x205f...0x206f, 0x3000, 0xfeff: true
        default: false
        }
    }
}
