// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

extension AdminRoutes {
    private static let versions = APIRoute.Parameter(
        name: "If-Match", place: .header, schema: .text(),
        note: "The ETag of the list that is replaced; if the list has changed since, the request is refused")

    /// The routes of the rules of users or devices.
    func rules(
        _ folder: String, _ what: String, _ owner: @escaping @Sendable (RandomID) -> Rule.Owner
    ) -> [APIRoute] {
        let list = JSONSchema.object([.init("rules", .list(of: .named("Rule")))])
        return [
            APIRoute(
                .get, "/v1/\(folder)/{id}/rules", .read, "The rules of a \(what), in their order",
                replies: [.init(status: 200, schema: list, note: "The first that fits counts")], problems: [404]
            ) { (request) async throws(GatewayError) in
                Self.reply(try await service.rules(of: owner(try request.id(what)), try request.caller))
            },
            APIRoute(
                .post, "/v1/\(folder)/{id}/rules", .manage, "Add a rule to a \(what)",
                parameters: [Self.creationKey],
                body: .object(
                    [
                        .init("rule", .named("RuleDraft")),
                        .init("isFirst", .flag, isRequired: false, note: "Before the others rather than after them"),
                    ], isClosed: true),
                replies: Self.made(list), problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let id = try request.id(what)
                let wanted = try request.read { (json) throws(ContractError) in try RuleAddition(json: json) }
                let made = try await service.addRule(
                    to: owner(id), wanted, creationKey: request.creationKey, try request.caller)
                return Self.reply(made.item, status: made.isRepetition ? 200 : 201)
            },
            APIRoute(
                .put, "/v1/\(folder)/{id}/rules", .manage, "Replace the rules of a \(what)",
                parameters: [Self.versions],
                body: .object(
                    [.init("rules", .list(of: .named("RuleDraft"), count: 0...Rule.most))], isClosed: true),
                replies: [.init(status: 200, schema: list, note: "As they are now")], problems: [404, 409, 412]
            ) { (request) async throws(GatewayError) in
                let id = try request.id(what)
                let wanted = try request.read { (json) throws(ContractError) in try RuleDraft.list(json: json) }
                return Self.reply(
                    try await service.setRules(
                        of: owner(id), wanted, ifVersion: request.versions, try request.caller))
            },
            APIRoute(
                .delete, "/v1/\(folder)/{id}/rules/{rule}", .manage, "Remove a rule of a \(what)",
                replies: [.init(status: 200, schema: list, note: "The rules that are left")], problems: [404]
            ) { (request) async throws(GatewayError) in
                let id = try request.id(what)
                // A text that is not an ID is the ID of no rule.
                guard let rule = RuleID(request.path["rule"] ?? "") else { throw .notFound("rule") }
                return Self.reply(try await service.removeRule(rule, of: owner(id), try request.caller))
            },
        ]
    }

    private static func reply(_ rules: [Rule], status: Int = 200) -> APIReply {
        APIReply(status, .members(["rules": .array(rules.map(\.json))])).tagged(Rule.version(of: rules))
    }
}
