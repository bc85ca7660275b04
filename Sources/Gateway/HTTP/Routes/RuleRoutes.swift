// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// The rules of users and the rules of devices.
package struct RuleRoutes: Sendable {
    package static let ofUsers = RuleRoutes("users", "user") { .user($0) }
    package static let ofDevices = RuleRoutes("devices", "device") { .device($0) }

    package let list: Route<Void, [Rule]>
    package let add: Route<RuleAddition, Created<[Rule]>>
    package let replace: Route<RuleList, [Rule]>
    package let remove: Route<Void, [Rule]>
    fileprivate let owner: @Sendable (RandomID) -> Rule.Owner

    /// - Parameters:
    ///   - folder: The part of the path that selects the kind of owner.
    ///   - kind: The name of the kind of owner.
    private init(_ folder: String, _ kind: String, _ owner: @escaping @Sendable (RandomID) -> Rule.Owner) {
        self.owner = owner
        let path = "/v1/\(folder)/{id}/rules"
        list = Route(
            .get, path, .read, "List the rules of a \(kind), in their order", reply: .rules("The first match applies"),
            errors: [404])
        add = Route(
            .post, path, .manage, "Add a rule to a \(kind)", body: .complete(RuleAddition.message),
            reply: .created(.rules("")),
            errors: [404, 409])
        replace = Route(
            .put, path, .manage, "Replace the rules of a \(kind)", body: .complete(RuleList.message),
            reply: .rules("The current rules"),
            parameters: [Self.versions], errors: [404, 409, 412])
        remove = Route(
            .delete, path + "/{rule}", .manage, "Remove a rule of a \(kind)", reply: .rules("The remaining rules"),
            errors: [404])
    }

    private static let versions = RouteDescription.Parameter(
        "If-Match", in: .header, .text(),
        "The ETag of the list to replace; if the list has changed since, the request is refused")
}

extension ReplyFormat where Reply == [Rule] {
    /// All rules of an owner, with their version as entity tag.
    fileprivate static func rules(_ note: String) -> ReplyFormat {
        let schema = JSONSchema.object([.init("rules", .list(of: .named("Rule")))])
        return ReplyFormat([.init(status: 200, schema: schema, note: note)], columns: Rule.message.columns()) { rules in
            APIReply(200, .object(of: [("rules", .array(rules.map(\.json)))])).tagged(Rule.version(of: rules))
        }
    }
}

extension AdminRoutes {
    func registerRules(_ routes: RuleRoutes, in list: inout RouteList) {
        let owner = routes.owner
        list.register(routes.list) { try await service.rules(of: owner($0.id()), $0.caller) }
        list.register(routes.add) {
            try await service.addRule(
                to: owner($0.id()), $0.body, creationKey: $0.creationKey, $0.caller)
        }
        list.register(routes.replace) {
            try await service.setRules(of: owner($0.id()), $0.body.rules, ifVersion: $0.versions, $0.caller)
        }
        list.register(routes.remove) {
            try await service.removeRule($0.id("rule"), of: owner($0.id()), $0.caller)
        }
    }
}
