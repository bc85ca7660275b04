// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
package import TunnelSystem

/// The OpenAPI 3.1 document of a listener, made of the routes that it answers by.
package struct OpenAPIDocument: Sendable {
    package var title: String
    package var version: String
    package var routes: [APIRoute]

    package init(title: String, version: String, routes: [APIRoute]) {
        self.title = title
        self.version = version
        self.routes = routes
    }

    package static let path = "/openapi.json"

    /// These routes, and one with the document of all of them.
    package static func adding(to routes: [APIRoute], title: String, version: String) -> [APIRoute] {
        func route(_ text: String) -> APIRoute {
            APIRoute(
                .get, path, .open, "This document",
                replies: [.init(status: 200, schema: .object([.init("openapi", .text())]), note: "OpenAPI 3.1")]
            ) { (_) async throws(GatewayError) in
                APIReply(200, mediaType: "application/json", body: Array(text.utf8))
            }
        }
        let document = OpenAPIDocument(title: title, version: version, routes: routes + [route("")])
        return routes + [route(document.json.line)]
    }

    /// The document.
    package var json: JSON {
        var paths: [(String, [(String, JSON)])] = []
        for route in routes {
            let operation = (route.method.rawValue.lowercased(), Self.operation(route))
            if let index = paths.firstIndex(where: { $0.0 == route.path }) {
                paths[index].1.append(operation)
            } else {
                paths.append((route.path, [operation]))
            }
        }
        return [
            "openapi": "3.1.0", "info": ["title": .string(title), "version": .string(version)],
            "paths": .object(of: paths.map { ($0.0, .object(of: $0.1)) }),
            "components": [
                "schemas": .object(of: ModelSchemas.all.map { ($0.name, $0.schema.json) }),
                "securitySchemes": ["bearer": ["type": "http", "scheme": "bearer"] as JSON],
            ],
        ]
    }

    private static func operation(_ route: APIRoute) -> JSON {
        var members: [(String, JSON)] = [
            ("operationId", .string(name(route))), ("summary", .string(route.summary)),
            ("security", .array(security(route.access))),
            ("x-access", .string(route.access.rawValue)),
        ]
        let names = route.path.split(separator: "/").filter { $0.hasPrefix("{") }.map { $0.dropFirst().dropLast() }
        let inPath = names.map { parameter(String($0), "path", .id, true, "") }
        let others = route.parameters.map {
            parameter($0.name, $0.place == .query ? "query" : "header", $0.schema, $0.isRequired, $0.note)
        }
        if !(inPath + others).isEmpty { members.append(("parameters", .array(inPath + others))) }
        if let body = route.body {
            members.append(
                ("requestBody", ["required": true, "content": ["application/json": ["schema": body.json]]]))
        }
        members.append(("responses", .object(of: responses(route))))
        return .object(of: members)
    }

    private static func security(_ access: APIRoute.Access) -> [JSON] {
        let bearer: JSON = ["bearer": .array([])]
        return switch access {
        case .open: []
        // Or nothing, from this host.
        case .localRead: [bearer, .object([])]
        default: [bearer]
        }
    }

    private static func parameter(
        _ name: String, _ place: String, _ schema: JSONSchema, _ isRequired: Bool, _ note: String
    ) -> JSON {
        .object(
            of: [
                ("name", .string(name)), ("in", .string(place)), ("required", .bool(isRequired)),
                ("schema", schema.json),
            ] + (note.isEmpty ? [] : [("description", .string(note))]))
    }

    private static func responses(_ route: APIRoute) -> [(String, JSON)] {
        let good = route.replies.map { reply -> (String, JSON) in
            var members: [(String, JSON)] = [("description", .string(reply.note))]
            if let schema = reply.schema {
                members.append(("content", .object(of: [(reply.mediaType, ["schema": schema.json] as JSON)])))
            }
            return ("\(reply.status)", .object(of: members))
        }
        let documented = Set(route.replies.map(\.status))
        let bad = route.refusals.filter { !documented.contains($0) }.map { status -> (String, JSON) in
            (
                "\(status)",
                [
                    "description": "Refused; `code` says why",
                    "content": ["application/problem+json": ["schema": JSONSchema.named("Problem").json]],
                ]
            )
        }
        return good + bad
    }

    /// As in `getUsersId`.
    private static func name(_ route: APIRoute) -> String {
        let words = route.path.split { !($0.isLetter || $0.isNumber) }.filter { $0 != "v1" }
        return route.method.rawValue.lowercased()
            + words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}
