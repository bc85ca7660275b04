// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Provisioning
import Testing
import TunnelServer
import TunnelSystem

@testable import Gateway

@Suite("Authorisation table of the API")
struct AuthorizationTableTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/authorization.md")

    /// `scripts/contract --update` sets CULVERT_CONTRACT=update; the test then writes the file first.
    @Test("The page docs/authorization.md lists the callers of each route of each listener")
    func table() async throws {
        try await APIBench.use { bench in
            let addKey = try bench.lists.addKey(bench.service.settings)
            let text = AuthorizationTable([
                .init("Device API", bench.lists.device),
                .init("Administrators' API and socket", bench.lists.admin, isOnSocket: true), .init("addKey", addKey),
            ]).markdown
            if ProcessInfo.processInfo.environment["CULVERT_CONTRACT"] == "update" {
                try Data(text.utf8).write(to: Self.file)
            }
            #expect(
                try String(contentsOf: Self.file, encoding: .utf8) == text,
                "docs/authorization.md differs from the routes: run scripts/contract --update")
        }
    }

    @Test("A route's target contains its values and its query in percent-encoding")
    func target() {
        let route = CooldownRoutes.clear.description
        #expect(route.target([]) == "/v1/cooldowns")
        #expect(
            route.target([], query: [(CooldownRoutes.address, "fd00::1"), (CooldownRoutes.user, "a b&c")])
                == "/v1/cooldowns?address=fd00%3A%3A1&user=a%20b%26c")
        #expect(
            RuleRoutes.ofUsers.remove.description.target(["anna/ben", "?x"]) == "/v1/users/anna%2Fben/rules/%3Fx")
    }
}

@Suite("Typed routes")
struct TypedRouteTests {
    private struct Unexpected: Error {}

    private static func answer<Body, Reply>(
        _ route: Route<Body, Reply>, _ body: String,
        _ handler: @escaping @Sendable (RouteCall<Body>) async throws -> Reply
    ) async throws(GatewayError) -> APIReply? {
        var list = RouteList()
        list.register(route, handler)
        return try await list.routes.first?.answer(
            APIRequest(caller: .nobody, source: .unknown, ids: [:], query: [:], body: Array(body.utf8)))
    }

    @Test("A handler gets the decoded body, and its reply has the status and the JSON of the route")
    func reply() async throws {
        let body = #"{"rule":{"action":"allow"},"isFirst":true}"#
        var rule = RuleDraft()
        rule[dynamicMember: \.access.action] = .allow
        let expected = RuleAddition(rule, isFirst: true)
        for (isRepetition, status) in [(false, 201), (true, 200)] {
            let reply = try await Self.answer(RuleRoutes.ofUsers.add, body) { call in
                #expect(call.body == expected)
                return Created(item: [], isRepetition: isRepetition)
            }
            #expect(reply?.status == status && reply?.body == Array(#"{"rules":[]}"#.utf8))
            #expect(reply?.headers.count == 1)
        }
    }

    @Test("A body that is not valid does not reach the handler")
    func badBody() async throws {
        await #expect(throws: GatewayError.self) {
            try await Self.answer(RuleRoutes.ofUsers.add, "{}") { _ in
                Issue.record("the handler was called")
                return Created(item: [], isRepetition: false)
            }
        }
    }

    @Test("An unexpected error of a handler becomes a failure of the gateway")
    func unexpected() async throws {
        await #expect(throws: GatewayError.unavailable("Unexpected()")) {
            try await Self.answer(UserRoutes.remove, "") { _ in throw Unexpected() }
        }
    }

    @Test("A route decodes the JSON that it encodes")
    func requests() async throws {
        let addition = RuleAddition(
            RuleDraft(AccessRule(.deny, direction: .in, transport: .tcp, ports: [80...80])), isFirst: true)
        let rule = try #require(RuleRoutes.ofUsers.add.body.encode(addition))
        #expect(try RuleRoutes.ofUsers.add.body.decode(rule) == addition)
        let token = TokenDraft(scope: .readOnly, name: "x", lifetimeSeconds: 60)
        let json = try #require(TokenRoutes.add.body.encode(token))
        #expect(try TokenRoutes.add.body.decode(json) == token)
        var user = UserUpdate()
        user.name = "Anna"
        user.expiresAt = .some(nil)
        let update = try #require(UserRoutes.change.body.encode(user))
        #expect(update == ["name": "Anna", "expiresAt": .null])
        #expect(try UserRoutes.change.body.decode(update) == user)
        #expect(UserRoutes.list.body.encode(()) == nil)
    }
}
