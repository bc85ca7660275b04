// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import HTTPTypes
package import Provisioning

/// One method of one path, without the types of its bodies. The router, the documents and the command line use it.
package struct RouteDescription: Sendable {
    /// A parameter in the query or a header.
    package struct Parameter: Sendable {
        package enum Place: Sendable { case query, header }

        package var name: String
        package var place = Place.query
        package var schema: JSONSchema
        package var isRequired = false
        package var note: String

        package init(
            _ name: String, in place: Place = .query, _ schema: JSONSchema, isRequired: Bool = false, _ note: String
        ) {
            self.name = name
            self.place = place
            self.schema = schema
            self.isRequired = isRequired
            self.note = note
        }
    }

    /// One successful reply of the route.
    package struct Reply: Sendable {
        package var status: Int
        /// `nil` for a reply without a body.
        package var schema: JSONSchema?
        package var mediaType = "application/json"
        package var note: String
    }

    package let method: HTTPRequest.Method
    /// A template such as `/v1/users/{id}`.
    package let path: String
    package let access: RouteAccess
    package let summary: String
    package let parameters: [Parameter]
    /// The schema of the request's body; `nil` if requests have no body.
    package let body: JSONSchema?
    package let replies: [Reply]
    /// The error statuses of this route, in addition to those of every route.
    package let errors: [Int]

    package var methodName: String { method.rawValue }

    /// All error statuses of the route.
    package var refusals: [Int] {
        var all = Set(errors)
        if access != .open { all.formUnion([401, 403, 429]) }
        if body != nil { all.formUnion([400, 408, 413, 415]) }
        if !parameters.isEmpty || path.contains("{") { all.insert(400) }
        // Every request may have an unknown query parameter (400), and the gateway may fail (500) or not be ready
        // (503).
        all.formUnion([400, 500, 503])
        return all.sorted()
    }

    /// Reads the IDs in the path of a request. Only IDs have names in a path.
    /// - Parameter value: Returns the text for a name of the template.
    /// - Throws: ``GatewayError/notFound(_:)`` for the first text that is not an ID.
    func ids(_ value: (Substring) -> Substring?) throws(GatewayError) -> [String: RandomID] {
        var ids: [String: RandomID] = [:]
        var kind = ""
        for part in path.split(separator: "/") {
            guard part.hasPrefix("{") else {
                // The component before an ID is the kind of its resource: an ID after `users` identifies a user.
                kind = String(part.dropLast())
                continue
            }
            let name = part.dropFirst().dropLast()
            guard let id = value(name).flatMap({ RandomID($0) }) else { throw .notFound(kind) }
            ids[String(name)] = id
        }
        return ids
    }

    /// The path and query of a request.
    /// - Parameters:
    ///   - values: The values of the names in the path, in their order.
    ///   - query: Parameters with their values.
    package func target(_ values: [String], query: [(parameter: Parameter, value: String)] = []) -> String {
        var rest = values[...]
        let parts = path.split(separator: "/").map { part in
            part.hasPrefix("{") ? PercentEncoding.encode(rest.popFirst() ?? "") : String(part)
        }
        let pairs = query.map { PercentEncoding.encode($0.parameter.name) + "=" + PercentEncoding.encode($0.value) }
        return "/" + parts.joined(separator: "/") + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
    }
}
