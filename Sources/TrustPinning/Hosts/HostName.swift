// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A host as policies and certificates name it: a DNS name in lower case, or an IP address.
public struct HostName: Sendable, Hashable, CustomStringConvertible {
    /// The DNS name in lower case without a final dot, or the address in its usual form.
    public let description: String
    /// The IP address; nil for a DNS name.
    public let address: IPAddress?

    /// Reads a DNS name or an IP address; IPv6 addresses with or without brackets.
    ///
    /// Names are compared as DNS does, without regard to case and to one final dot. International names are given as
    /// A-labels (`xn--…`): which characters look alike is for whoever shows names to people.
    ///
    /// - Throws: ``HostNameError``, which says what is wrong.
    public init(_ text: String) throws(HostNameError) {
        var bytes = ContiguousArray(text.utf8)
        if bytes.first == UInt8(ascii: "["), bytes.last == UInt8(ascii: "]") {
            bytes = ContiguousArray(bytes.dropFirst().dropLast())
            guard bytes.contains(UInt8(ascii: ":")) else {
                throw HostNameError("only IPv6 addresses are put in brackets")
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
