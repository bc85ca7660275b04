// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes

/// Strong entity tags (RFC 9110 section 8.8.3).
enum EntityTag {
    static func text(of version: String) -> String { "\"\(version)\"" }

    /// The strong tags of a list such as `"a", W/"b"`, without quotation marks; `nil` if it is not such a list.
    static func versions(of text: String) -> [String]? {
        var versions: [String] = []
        var rest = text.utf8[...]
        func skipSpaces() { rest = rest.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") } }
        while true {
            skipSpaces()
            let isWeak = rest.starts(with: "W/".utf8)
            if isWeak { rest = rest.dropFirst(2) }
            guard rest.popFirst() == quote, let end = rest.firstIndex(of: quote) else { return nil }
            let version = rest[..<end]
            guard version.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else { return nil }
            // Weak tags never match (RFC 9110 section 8.8.3.2).
            if !isWeak { versions.append(String(Substring(version))) }
            rest = rest[end...].dropFirst()
            skipSpaces()
            guard let separator = rest.popFirst() else { return versions }
            guard separator == UInt8(ascii: ",") else { return nil }
        }
    }

    private static let quote = UInt8(ascii: "\"")
}

extension RequestFields {
    /// The versions in `If-Match`; `nil` if the field is missing or matches any version.
    static func versions(_ fields: HTTPFields) throws(GatewayError) -> [String]? {
        guard let text = fields[.ifMatch], text != "*" else { return nil }
        guard let versions = EntityTag.versions(of: text) else {
            throw .invalid(field: "If-Match", problem: "must be * or entity tags in quotation marks")
        }
        return versions
    }
}

extension APIReply {
    /// The reply with the version of the resource in it.
    func tagged(_ version: String) -> APIReply {
        var reply = self
        reply.headers.append((.eTag, EntityTag.text(of: version)))
        return reply
    }
}
