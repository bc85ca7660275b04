// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The syntax of host names: RFC 1123 section 2.1 and the lengths of RFC 1035 section 2.3.4.
package enum HostNameSyntax {
    /// Whether the last label is all digits or begins with `0x`. Such a text can only be intended as an IPv4 address
    /// (WHATWG URL section 3.5).
    package static func endsInNumber(_ name: Span<UInt8>) -> Bool {
        let last = name.extracting(((ASCII.lastIndex(of: UInt8(ascii: "."), in: name) ?? -1) + 1)..<name.count)
        if last.count >= 2, last[0] == UInt8(ascii: "0"), ASCII.lowercased(last[1]) == UInt8(ascii: "x") { return true }
        for index in 0..<last.count where ASCII.decimal(last[index]) == nil { return false }
        return last.count > 0
    }

    /// - Parameter allowsInternational: whether international names may be written in Unicode instead of their xn-- form.
    package static func check(_ name: Span<UInt8>, allowsInternational: Bool = false) throws(AddressTextError) {
        // A final dot marks a fully qualified name and does not count.
        let end = name.count > 1 && name[name.count - 1] == UInt8(ascii: ".") ? name.count - 1 : name.count
        guard end > 0 else { throw AddressTextError("there is no host name", at: 0) }
        guard end <= 253 else { throw AddressTextError("a host name has at most 253 characters", at: 253) }
        var label = 0
        for index in 0...end {
            if index == end || name[index] == UInt8(ascii: ".") {
                guard index > label else { throw AddressTextError("a part of the host name is empty", at: index) }
                guard index - label <= 63 else {
                    throw AddressTextError("a part of a host name has at most 63 characters", at: label)
                }
                guard name[label] != UInt8(ascii: "-"), name[index - 1] != UInt8(ascii: "-") else {
                    throw AddressTextError("a part of a host name neither starts nor ends with a hyphen", at: label)
                }
                label = index + 1
            } else if name[index] >= 128 {
                guard !allowsInternational else { continue }
                throw AddressTextError(
                    "a host name is ASCII; international names are written in their xn-- form", at: index)
            } else if !ASCII.isAlphanumeric(name[index]), name[index] != UInt8(ascii: "-"),
                name[index] != UInt8(ascii: "_")
            {
                throw AddressTextError("this character is not part of a host name", at: index)
            }
        }
        guard !endsInNumber(name.extracting(0..<end)) else {
            throw AddressTextError(
                "a name that ends in a number can only be an IPv4 address, which has four numbers", at: 0)
        }
    }
}
