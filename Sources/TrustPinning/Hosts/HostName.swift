// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A host as policies and certificates name it: a DNS name in lower case, or an IP address.
public struct HostName: Sendable, Hashable, CustomStringConvertible {
    /// The DNS name in lower case without a final dot, or the address in its usual form.
    public let description: String
    /// The 4 or 16 bytes of an IP address; nil for a DNS name.
    public let address: [UInt8]?

    /// Reads a DNS name or an IP address; IPv6 addresses with or without brackets.
    ///
    /// Names are compared as DNS does, without regard to case and to one final dot. International names are given as
    /// A-labels (`xn--…`): which characters look alike is for whoever shows names to people.
    ///
    /// - Throws: ``HostNameError``, which says what is wrong.
    public init(_ text: String) throws(HostNameError) {
        var rest = Substring(text)
        if rest.hasPrefix("["), rest.hasSuffix("]") {
            rest = rest.dropFirst().dropLast()
            guard rest.contains(":") else { throw HostNameError("only IPv6 addresses are put in brackets") }
        }
        if rest.contains(":") {
            guard let address = IPAddressText.parseIPv6(rest) else {
                throw HostNameError("not an IPv6 address; a port and a zone are no part of a host")
            }
            self.address = address
            description = IPAddressText.description(address)
            return
        }
        if rest.hasSuffix(".") { rest = rest.dropLast() }
        guard !rest.isEmpty else { throw HostNameError("a host is not empty") }
        guard rest.utf8.count <= 253 else { throw HostNameError("a host has at most 253 characters") }
        let labels = rest.split(separator: ".", omittingEmptySubsequences: false)
        for label in labels { try Self.check(label) }
        // A name whose last label is a number is an address, or nothing (WHATWG URL section 3.5).
        if let last = labels.last,
            last.utf8.allSatisfy({ (0x30...0x39).contains($0) }) || last.lowercased().hasPrefix("0x")
        {
            guard let address = IPAddressText.parseIPv4(rest) else { throw HostNameError("not an IPv4 address") }
            self.address = address
            description = IPAddressText.description(address)
            return
        }
        description = rest.lowercased()
        address = nil
    }

    private static func check(_ label: Substring) throws(HostNameError) {
        guard !label.isEmpty else { throw HostNameError("a label of the host is empty") }
        guard label.utf8.count <= 63 else { throw HostNameError("a label of the host has more than 63 characters") }
        for byte in label.utf8 {
            guard byte < 0x80 else {
                throw HostNameError("international names are written as A-labels, such as xn--bcher-kva.example")
            }
            let letter = Character(Unicode.Scalar(byte))
            // Underscores are no host name's, but servers have them.
            guard letter.isLetter || letter.isNumber || letter == "-" || letter == "_" else {
                throw HostNameError("a host has letters, digits and hyphens, not \(letter)")
            }
        }
        guard label.first != "-", label.last != "-" else { throw HostNameError("a label begins or ends with a hyphen") }
    }

    /// Whether this is an IP address.
    public var isAddress: Bool { address != nil }

    /// The name without its first label; nil if there is but one, and for addresses.
    var parent: Substring? {
        guard !isAddress, let dot = description.firstIndex(of: ".") else { return nil }
        return description[description.index(after: dot)...]
    }
}

/// Why a text is not a host.
public struct HostNameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, for people.
    public let description: String

    init(_ description: String) { self.description = description }
}
