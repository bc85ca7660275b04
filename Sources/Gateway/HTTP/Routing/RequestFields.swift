// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// Reads and checks the fields of a request's head.
enum RequestFields {
    private static let idempotencyKey = HTTPField.Name("Idempotency-Key")

    /// The bearer secret (RFC 6750 section 2.1), or `nil` if the request has no credential.
    /// - Throws: ``GatewayError/unauthorized`` for another kind of credential, or for more than one.
    static func bearer(_ fields: HTTPFields) throws(GatewayError) -> String? {
        let values = fields[values: .authorization]
        guard let value = values.first else { return nil }
        let parts = value.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard values.count == 1, parts.count == 2, parts[0].lowercased() == "bearer" else { throw .unauthorized }
        let secret = parts[1].drop { $0 == " " }
        guard (1...256).contains(secret.utf8.count), secret.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw .unauthorized
        }
        return String(secret)
    }

    /// The key by which a repeated creation is recognised, or `nil` if the request has none.
    static func creationKey(_ fields: HTTPFields) throws(GatewayError) -> String? {
        guard let name = idempotencyKey else { return nil }
        let values = fields[values: name]
        guard let value = values.first else { return nil }
        guard values.count == 1, (1...128).contains(value.utf8.count),
            value.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { throw .invalid(field: "Idempotency-Key", problem: "must be 1 to 128 printable characters, once") }
        return value
    }

    /// Whether the media type of the body is JSON.
    static func isJSON(_ fields: HTTPFields) -> Bool {
        let values = fields[values: .contentType]
        guard values.count == 1, let value = values.first else { return false }
        let type = value.split(separator: ";", maxSplits: 1)[0...].first ?? ""
        return type.trimmedSpaces.lowercased() == "application/json"
    }

    /// Reads the parameters of a query. Each must be known, occur at most once, and have a length within its bounds.
    static func query(_ text: String?, _ known: [RouteDescription.Parameter]) throws(GatewayError) -> [String: String] {
        guard let text, !text.isEmpty else { return [:] }
        var values: [String: String] = [:]
        for pair in text.split(separator: "&", omittingEmptySubsequences: true) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = PercentEncoding.decode(parts[0]),
                let value = PercentEncoding.decode(parts.count > 1 ? parts[1] : "")
            else {
                throw .invalid(field: "query", problem: "must be percent-encoded UTF-8")
            }
            guard let parameter = known.first(where: { $0.name == name }) else {
                throw .invalid(field: "query", problem: "must not contain unknown parameters")
            }
            if case .text(_, _, let length?, _) = parameter.schema {
                let scalars = value.unicodeScalars
                guard length.contains(scalars.count),
                    !scalars.contains(where: { $0.isControl || "\u{2028}\u{2029}".unicodeScalars.contains($0) })
                else {
                    throw .invalid(
                        field: name,
                        problem: "must be one line of \(length.lowerBound) to \(length.upperBound) characters")
                }
            }
            guard values.updateValue(value, forKey: name) == nil else {
                throw .invalid(field: name, problem: "must not occur twice")
            }
        }
        return values
    }
}

extension Substring {
    fileprivate var trimmedSpaces: Substring {
        var text = self
        while text.first == " " { text.removeFirst() }
        while text.last == " " { text.removeLast() }
        return text
    }
}
