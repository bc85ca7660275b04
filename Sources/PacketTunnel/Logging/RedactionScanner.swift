// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Finds the secrets in one text, as ranges of its UTF-8 bytes.
struct RedactionScanner {
    let bytes: [UInt8]
    private var found: [(range: Range<Int>, isKey: Bool)] = []

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The text without the found secrets, or `nil` if there are none.
    mutating func redacted() -> String? {
        findNamedValues()
        findUserInformation()
        findPrivateKeyBlocks()
        findKeys()
        guard !found.isEmpty else { return nil }
        found.sort { $0.range.lowerBound < $1.range.lowerBound }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var position = 0
        for (range, isKey) in found where range.upperBound > position {
            // Overlapping ranges are one.
            if range.lowerBound >= position {
                output += bytes[position..<range.lowerBound]
                output += (isKey ? Redactor.keyPlaceholder : Redactor.placeholder).utf8
            }
            position = range.upperBound
        }
        output += bytes[position...]
        return String(decoding: output, as: UTF8.self)
    }

    // MARK: - Names with a value

    private mutating func findNamedValues() {
        var index = 0
        while index < bytes.count {
            guard isNameCharacter(bytes[index]) else {
                index += 1
                continue
            }
            var end = index
            while end < bytes.count, isNameCharacter(bytes[end]) { end += 1 }
            let name = bytes[index..<end]
            if isBearer(name) {
                let start = skip(end, while: isBlank)
                if start > end { add(start..<valueEnd(start)) }
            } else if let start = valueStart(after: end, name: name), SensitiveName.isSensitive(name) {
                addValue(at: start, isWholeLine: SensitiveName.takesWholeLine(name))
            }
            index = end
        }
    }

    /// The beginning of the value after a name, or `nil` if there is no value.
    private func valueStart(after end: Int, name: ArraySlice<UInt8>) -> Int? {
        let isOption = name.starts(with: Array("--".utf8))
        // The name may be in quotes, which may be escaped.
        var index = skip(end) { $0 == UInt8(ascii: "\\") }
        if index < bytes.count, isQuote(bytes[index]) { index += 1 } else { index = end }
        let separator = skip(index, while: isBlank)
        if separator < bytes.count, bytes[separator] == UInt8(ascii: "=") || bytes[separator] == UInt8(ascii: ":") {
            return skip(separator + 1, while: isBlank)
        }
        if hasPrefix("%3D", at: separator) || hasPrefix("%3A", at: separator) { return separator + 3 }
        return isOption && separator > end ? separator : nil
    }

    private mutating func addValue(at start: Int, isWholeLine: Bool) {
        let quote = skip(start) { $0 == UInt8(ascii: "\\") }
        if quote < bytes.count, isQuote(bytes[quote]) {
            add(quote + 1..<quotedEnd(quote + 1, quote: bytes[quote], isEscaped: quote > start))
        } else if isWholeLine || opensStructure(start) {
            add(start..<lineEnd(start))
        } else {
            add(start..<valueEnd(start))
        }
    }

    private func opensStructure(_ index: Int) -> Bool {
        guard index < bytes.count else { return false }
        return "[{(".utf8.contains(bytes[index]) || hasPrefix("OPTIONAL(", at: index)
    }

    private func lineEnd(_ start: Int) -> Int { skip(start) { $0 != 0x0a && $0 != 0x0d } }

    private func valueEnd(_ start: Int) -> Int {
        skip(start) { $0 > 0x20 && !"&,;)]}>\"'".utf8.contains($0) }
    }

    /// Returns the end of a quoted value: the closing quote, escaped like the opening one, or the end of the line.
    private func quotedEnd(_ start: Int, quote: UInt8, isEscaped: Bool) -> Int {
        var index = start
        while index < bytes.count, bytes[index] != 0x0a {
            if bytes[index] == quote, (bytes[index - 1] == UInt8(ascii: "\\")) == isEscaped {
                return isEscaped && index > start ? index - 1 : index
            }
            index += 1
        }
        return index
    }

    private func isBearer(_ name: ArraySlice<UInt8>) -> Bool {
        name.count == 6 && zip(name, "bearer".utf8).allSatisfy { $0 | 0x20 == $1 }
    }

    // MARK: - URLs and PEM

    private mutating func findUserInformation() {
        var index = 0
        while let scheme = firstIndex(of: "://", from: index) {
            let start = scheme + 3
            let end = skip(start) { $0 > 0x20 && !"/?#\"'<>".utf8.contains($0) }
            if let at = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")) { add(start..<at) }
            index = start
        }
    }

    private mutating func findPrivateKeyBlocks() {
        var index = 0
        while let start = firstIndex(of: "-----BEGIN ", from: index) {
            index = start + 11
            let header = skip(index) { $0 != UInt8(ascii: "-") && $0 != 0x0a }
            guard String(decoding: bytes[index..<header], as: UTF8.self).hasSuffix("PRIVATE KEY") else { continue }
            add(header..<(firstIndex(of: "-----END ", from: header) ?? bytes.count), isKey: true)
        }
    }

    // MARK: - Helpers

    mutating func add(_ range: Range<Int>, isKey: Bool = false) {
        if !range.isEmpty { found.append((range, isKey)) }
    }

    func skip(_ start: Int, while condition: (UInt8) -> Bool) -> Int {
        var index = start
        while index < bytes.count, condition(bytes[index]) { index += 1 }
        return index
    }

    /// Whether `prefix`, which is in upper case, is at `index` in any case.
    func hasPrefix(_ prefix: StaticString, at index: Int) -> Bool {
        let prefix = "\(prefix)".utf8
        guard index >= 0, bytes.count - index >= prefix.count else { return false }
        return zip(bytes[index...], prefix).allSatisfy { byte, wanted in
            byte == wanted || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(wanted) && byte == wanted | 0x20
        }
    }

    private func firstIndex(of pattern: String, from start: Int) -> Int? {
        let pattern = Array(pattern.utf8)
        guard bytes.count >= pattern.count else { return nil }
        var index = start
        while index <= bytes.count - pattern.count {
            if bytes[index] == pattern[0], bytes[index..<index + pattern.count].elementsEqual(pattern) { return index }
            index += 1
        }
        return nil
    }

    private func isNameCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    private func isQuote(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") }
}
