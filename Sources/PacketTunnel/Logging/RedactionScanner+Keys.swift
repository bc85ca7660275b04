// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension RedactionScanner {
    /// The digits of 32 bytes in base64, without padding.
    private static let keyDigits = 43
    /// The number of changes of character class (capital, small letter, digit) that marks random base64. Among the 42
    /// gaps of 43 random digits there are about 25; 12 is four standard deviations below. Paths and words have fewer.
    private static let fewestChanges = 12
    /// Text with exactly the length of a key is rare, so fewer changes suffice.
    private static let fewestChangesOfExactLength = 8

    private enum Digit {
        case upper
        case lower
        case number
        case sign
        case urlSafe
    }

    /// Finds text that may be 32 bytes or more of base64 or hexadecimal digits.
    mutating func findKeys() {
        var index = 0
        while index < bytes.count {
            guard digit(at: index) != nil else {
                index += 1
                continue
            }
            let start = index
            var kinds: [Digit] = []
            while let (kind, length) = digit(at: index) {
                kinds.append(kind)
                index += length
            }
            guard kinds.count >= Self.keyDigits else { continue }
            let digitsEnd = index
            let padding = paddingLength(at: index)
            if padding > 0 || isKey(kinds) || isHexadecimal(start..<digitsEnd) {
                index += padding
                add(start..<index, isKey: true)
            }
        }
    }

    /// Whether unpadded base64 digits may be a key.
    private func isKey(_ kinds: [Digit]) -> Bool {
        let fewest = kinds.count == Self.keyDigits ? Self.fewestChangesOfExactLength : Self.fewestChanges
        var changes = 0
        for position in 1..<kinds.count {
            if isChange(kinds[position - 1], kinds[position]) { changes += 1 }
            // Count only changes within the last 43 digits.
            let left = position - Self.keyDigits + 1
            if left >= 1, isChange(kinds[left - 1], kinds[left]) { changes -= 1 }
            if changes >= fewest { return true }
        }
        return false
    }

    /// Punctuation does not count: it separates the words of paths and names.
    private func isChange(_ first: Digit, _ second: Digit) -> Bool {
        first != second && first != .sign && first != .urlSafe && second != .sign && second != .urlSafe
    }

    /// Whether there are 64 consecutive hexadecimal digits.
    private func isHexadecimal(_ range: Range<Int>) -> Bool {
        var count = 0
        for byte in bytes[range] {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"):
                count += 1
                if count >= 64 { return true }
            default: count = 0
            }
        }
        return false
    }

    /// A base64 digit and its length in bytes, plain or escaped for a URL or in JSON.
    private func digit(at index: Int) -> (kind: Digit, length: Int)? {
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): return (.upper, 1)
        case UInt8(ascii: "a")...UInt8(ascii: "z"): return (.lower, 1)
        case UInt8(ascii: "0")...UInt8(ascii: "9"): return (.number, 1)
        case UInt8(ascii: "+"), UInt8(ascii: "/"): return (.sign, 1)
        case UInt8(ascii: "-"), UInt8(ascii: "_"): return (.urlSafe, 1)
        case UInt8(ascii: "%") where hasPrefix("%2B", at: index) || hasPrefix("%2F", at: index): return (.sign, 3)
        case UInt8(ascii: "\\") where hasPrefix("\\/", at: index): return (.sign, 2)
        default: return nil
        }
    }

    private func paddingLength(at index: Int) -> Int {
        if index < bytes.count, bytes[index] == UInt8(ascii: "=") { return 1 }
        if hasPrefix("%3D", at: index) { return 3 }
        return hasPrefix("\\U003D", at: index) ? 6 : 0
    }
}
