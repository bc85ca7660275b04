// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
package import TunnelSystem

/// The OpenAPI 3.1 document of a listener, made from the routes of its router.
package struct OpenAPIDocument: Sendable {
    package var title: String
    package var version: String
    package var routes: [RouteDescription]

    package init(title: String, version: String, routes: [RouteDescription]) {
        self.title = title
        self.version = version
        self.routes = routes
    }

    private static let show = Route<Void, [UInt8]>(
        .get, "/openapi.json", .open, "This document",
        reply: ReplyFormat([
            .init(status: 200, schema: .object([.init("openapi", .text())]), note: "OpenAPI 3.1")
        ]) { APIReply(200, mediaType: "application/json", body: $0) })

    /// Adds a route that returns the document of all routes, including this one.
    package static func register(in list: inout RouteList, title: String, version: String) {
        let routes = list.routes.map(\.description) + [show.description]
        let bytes = OpenAPIDocument(title: title, version: version, routes: routes).json.bytes
        list.register(show) { _ in bytes }
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

    private static func operation(_ route: RouteDescription) -> JSON {
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

    private static func security(_ access: RouteAccess) -> [JSON] {
        let bearer: JSON = ["bearer": .array([])]
        return switch access {
        // No credential of the document permits a route of the socket.
        case .open, .addKey, .socket: []
        // A token, or no credential if the request is from this host.
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

    private static func responses(_ route: RouteDescription) -> [(String, JSON)] {
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
                    "description": "Refused; `code` is the reason",
                    "content": ["application/problem+json": ["schema": JSONSchema.named("Problem").json]],
                ]
            )
        }
        return good + bad
    }

    /// The name of an operation, such as `getUsersId`.
    private static func name(_ route: RouteDescription) -> String {
        let words = route.path.split { !($0.isLetter || $0.isNumber) }.filter { $0 != "v1" }
        return route.method.rawValue.lowercased()
            + words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}
