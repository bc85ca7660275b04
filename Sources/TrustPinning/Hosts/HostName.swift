// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A host in policies and certificates: a DNS name in lower case, or an IP address.
public struct HostName: Sendable, Hashable, CustomStringConvertible {
    /// The DNS name in lower case without a final dot, or the address in canonical form.
    public let description: String
    /// The IP address, or `nil` for a DNS name.
    public let address: IPAddress?

    /// Reads a DNS name or an IP address. An IPv6 address may be in brackets.
    ///
    /// As in DNS, case and one final dot are ignored. Pass international names as A-labels (`xn--…`). Lookalike
    /// characters are not detected: that is the task of the code that displays names.
    ///
    /// - Throws: ``HostNameError`` if the text is neither.
    public init(_ text: String) throws(HostNameError) {
        var bytes = ContiguousArray(text.utf8)
        if bytes.first == UInt8(ascii: "["), bytes.last == UInt8(ascii: "]") {
            bytes = ContiguousArray(bytes.dropFirst().dropLast())
            guard bytes.contains(UInt8(ascii: ":")) else {
                throw HostNameError("only an IPv6 address may be in brackets")
            }
        }
        let name = bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes[...]
        do throws(AddressTextError) {
            if bytes.contains(UInt8(ascii: ":")) {
                address = try IPAddress(utf8: bytes.span)
            } else if HostNameSyntax.endsInNumber(name.span) {
                address = try IPAddress(utf8: name.span)
            } else {
                try HostNameSyntax.check(bytes.span)
                address = nil
            }
        } catch {
            throw HostNameError("\(error)")
        }
        description = address?.description ?? String(decoding: name, as: UTF8.self).lowercased()
    }

    /// Whether this is an IP address.
    public var isAddress: Bool { address != nil }

    /// The name without its first label, or `nil` for an address or a single label.
    var parent: Substring? {
        guard !isAddress, let dot = description.firstIndex(of: ".") else { return nil }
        return description[description.index(after: dot)...]
    }
}

/// The error of a text that is not a host.
public struct HostNameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The readable reason.
    public let description: String

    init(_ description: String) { self.description = description }
}
