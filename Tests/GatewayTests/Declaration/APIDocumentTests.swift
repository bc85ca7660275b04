// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnel
import Provisioning
import Testing
import TunnelSystem

@testable import Gateway

/// The API's document, compared with that of an earlier version.
@Suite("The API's document") struct APIDocumentTests {
    /// Members of the earlier document whose limit was wider than the one that the service enforced, and the permissions of
    /// backups, which tokens permitted.
    private static let narrowed: [String: JSON] = {
        let schemas = "components.schemas"
        // Ten years.
        let number: JSON = ["type": "integer", "minimum": .integer(1), "maximum": .integer(315_360_000)]
        let lifetime = JSON.array([number, ["type": "null"]])
        return [
            "\(schemas).UserDraft.properties.login.maxLength": .integer(64),
            "\(schemas).UserDraft.properties.name.maxLength": .integer(64),
            "\(schemas).UserUpdate.properties.login.maxLength": .integer(64),
            "\(schemas).UserUpdate.properties.name.maxLength": .integer(64),
            "\(schemas).DeviceDraft.properties.subnets.maxItems": .integer(32),
            "\(schemas).DeviceUpdate.properties.subnets.maxItems": .integer(32),
            "\(schemas).Rule.properties.networks.maxItems": .integer(64),
            "\(schemas).RuleDraft.properties.networks.maxItems": .integer(64),
            "\(schemas).TokenDraft.properties.lifetimeSeconds.anyOf": lifetime,
            "\(schemas).InvitationDraft.properties.lifetimeSeconds.anyOf": lifetime,
            "\(schemas).Grant.properties.renewAfterSeconds.minimum": .integer(1),
            "paths./v1/backups.post.x-access": "socket", "paths./v1/backups.post.security": .array([]),
        ]
    }()

    /// Members that the earlier document did not have.
    private static let added = [
        "User.properties.addresses", "UserDraft.properties.addresses", "UserUpdate.properties.addresses",
        "Status.properties.servesWireGuard", "Status.properties.warnings", "Status.properties.aead",
        "Grant.properties.pins",
    ].map { "components.schemas.\($0)." }

    /// Required members that the earlier document did not have, in schemas in which all members are required.
    private static let required = ["User": ["addresses"], "Status": ["servesWireGuard", "aead", "warnings"]]

    /// Actions of the audit log that the earlier document did not have.
    private static let addedActions: [JSON] = ["backupKeyActivated"]

    /// Each value that is not an object, by its path. The order of required members has no meaning.
    private func flat(_ json: JSON, _ path: String = "") -> [String: JSON] {
        if path.hasSuffix(".required"), case .array(let names) = json {
            return [path: .array(names.sorted { $0.line < $1.line })]
        }
        guard case .object(let members) = json, !members.isEmpty else { return [path: json] }
        return members.reduce(into: [:]) { all, member in
            all.merge(flat(member.value, path.isEmpty ? member.name : "\(path).\(member.name)")) { $1 }
        }
    }

    /// The value without ``addedActions`` in its lists.
    private func withoutAddedActions(_ json: JSON) -> JSON {
        switch json {
        case .array(let items): .array(items.filter { !Self.addedActions.contains($0) }.map(withoutAddedActions))
        case .object(let members):
            .object(members.map { JSON.Member(name: $0.name, value: withoutAddedActions($0.value)) })
        default: json
        }
    }

    /// The value with an empty text in place of each description and summary in its lists.
    private func withoutTexts(_ json: JSON) -> JSON {
        switch json {
        case .array(let items): .array(items.map(withoutTexts))
        case .object(let members):
            .object(
                members.map { member in
                    let isText = ["description", "summary"].contains(member.name)
                    return JSON.Member(name: member.name, value: isText ? .string("") : withoutTexts(member.value))
                })
        default: json
        }
    }

    @Test("The document equals the earlier one, except for texts and for limits that the service enforces now")
    func golden() async throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Fixtures/api/openapi.json")
        let expected = flat(try JSON.read([UInt8](Data(contentsOf: file)))).merging(Self.narrowed) { $1 }
        try await APIBench.use { bench in
            let reply = try await bench.ask("GET", "/openapi.json")
            for action in Self.addedActions { #expect(reply.body.contains(action.text), "\(action)") }
            var found = flat(withoutAddedActions(try JSON.read(Array(reply.body.utf8))))
            for (schema, names) in Self.required {
                let path = "components.schemas.\(schema).required"
                guard case .array(let members)? = found[path] else { throw TestFailure("\(path) is not a list") }
                #expect(names.allSatisfy { members.contains(.string($0)) }, "\(path)")
                found[path] = .array(members.filter { member in !names.contains { member == .string($0) } })
            }
            for prefix in Self.added { #expect(found.keys.contains { $0.hasPrefix(prefix) }, "\(prefix)") }
            let paths = Set(expected.keys).union(found.keys).subtracting(["info.version"])
            for path in paths.sorted() where !Self.added.contains(where: path.hasPrefix) {
                // Texts for people may change, but each must exist.
                let isText = path.hasSuffix(".description") || path.hasSuffix(".summary")
                let (new, old) = (found[path].map(withoutTexts), expected[path].map(withoutTexts))
                #expect(isText ? new != nil && old != nil : new == old, "\(path)")
            }
        }
    }
}

@Suite("Bounds of the API") struct APIBoundsTests {
    @Test("Each bound of a user holds over HTTP")
    func users() async throws {
        for form in [MessageForm.create, .patch] {
            // Each form has a separate gateway, because logins are unique.
            try await APIBench.use { bench in
                let admin = try await bench.token(.admin)
                let id = try await bench.user("anna")
                let (method, path) = form == .create ? ("POST", "/v1/users") : ("PATCH", "/v1/users/\(id)")
                for field in User.message.fields where field.isIn(form) {
                    for value in FieldCase.all(field.schema) {
                        var members = User.message.minimal(form)
                        // Each user gets another login.
                        if form == .create { members["login"] = .string("u\(UInt32.random(in: 0...(.max)))") }
                        members[field.name] = value.value
                        let reply = try await bench.ask(method, path, bearer: admin, JSON.object(members).line)
                        let words = "\(form) \(field.name), \(value.name): \(reply.body)"
                        guard value.isAccepted else {
                            #expect(reply.status == 400 && reply.body.contains(field.name), "\(words)")
                            continue
                        }
                        #expect(reply.status == (form == .create ? 201 : 200), "\(words)")
                        #expect((reply.json[field.name] ?? .null).ordered == value.value, "\(words)")
                    }
                }
            }
        }
    }

    @Test("Each bound of a device holds over HTTP")
    func devices() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let user = try await bench.user("anna")
            let device = try await bench.enrol(user).id
            for (form, method, path) in [
                (MessageForm.create, "POST", "/v1/devices"), (.patch, "PATCH", "/v1/devices/\(device)"),
            ] {
                for field in Device.message.fields where field.isIn(form) {
                    for value in FieldCase.all(field.schema) {
                        var members = Device.message.minimal(form)
                        if form == .create { members["user"] = .string(user.description) }
                        members[field.name] = value.value
                        let reply = try await bench.ask(method, path, bearer: admin, JSON.object(members).line)
                        // Creations are for one key, so a repetition conflicts. No user has the sample of an ID.
                        let accepted = form == .create ? [201, 404, 409] : [200]
                        let isCorrect =
                            value.isAccepted
                            ? accepted.contains(reply.status) : reply.status == 400 && reply.body.contains(field.name)
                        #expect(isCorrect, "\(form) \(field.name), \(value.name): \(reply.body)")
                    }
                }
            }
        }
    }

    @Test("Each bound of a token and of an invitation holds over HTTP")
    func secrets() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let user = JSON.string(try await bench.user("anna").description)
            for (path, schema, minimal) in [
                ("/v1/tokens", TokenDraft.message.schemaMembers(.create), TokenDraft.message.minimal()),
                ("/v1/invitations", InvitationDraft.message.schemaMembers(.create), InvitationDraft.message.minimal()),
            ] {
                for member in schema {
                    for value in FieldCase.all(member.schema) {
                        var members = minimal
                        if path == "/v1/invitations" { members["user"] = user }
                        // Only tokens of these scopes have a user.
                        if member.name == "user", path == "/v1/tokens" { members["scope"] = "enrol" }
                        if value.value == "enrol" || value.value == "addKey" { members["user"] = user }
                        members[member.name] = value.value
                        let reply = try await bench.ask("POST", path, bearer: admin, JSON.object(members).line)
                        // No user has the sample of an ID.
                        let isCorrect =
                            value.isAccepted
                            ? reply.status == (member.name == "user" ? 404 : 201)
                            : reply.status == 400 && reply.body.contains(member.name)
                        #expect(isCorrect, "\(path) \(member.name), \(value.name): \(reply.body)")
                    }
                }
                for body in [
                    minimal.merging(["id": "x"]) { $1 }, minimal.filter { $0.key != "name" && $0.key != "user" },
                ] {
                    #expect(try await bench.ask("POST", path, bearer: admin, JSON.object(body).line).status == 400)
                }
            }
        }
    }

    @Test("A token's creation is repeated with its key, and refused with another lifetime")
    func repeatedToken() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let header = ["Idempotency-Key: abc"]
            for (body, status) in [
                (#"{"scope":"readOnly","name":"x"}"#, 201), (#"{"name":"x","scope":"readOnly"}"#, 200),
                (#"{"scope":"readOnly","name":"x","lifetimeSeconds":null}"#, 200),
                (#"{"scope":"readOnly","name":"x","lifetimeSeconds":60}"#, 409),
            ] {
                let reply = try await bench.ask("POST", "/v1/tokens", bearer: admin, body, headers: header)
                #expect(reply.status == status, "\(body): \(reply.body)")
            }
        }
    }

    @Test("Each bound of an added rule holds over HTTP")
    func addedRule() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))/rules"
            let rule: JSON = ["action": "deny"]
            for value in FieldCase.all(.flag) {
                let body: JSON = ["rule": rule, "isFirst": value.value]
                let reply = try await bench.ask("POST", path, bearer: admin, body.line)
                let isCorrect = value.isAccepted ? reply.status == 201 : reply.status == 400
                #expect(
                    isCorrect && (value.isAccepted || reply.body.contains("isFirst")), "\(value.name): \(reply.body)")
            }
            for (body, field) in [
                (["rule": ["action": "no"]], "rule.action"), (["isFirst": true], "rule"),
                (["rule": rule, "x": true], "x"),
            ] as [(JSON, String)] {
                let reply = try await bench.ask("POST", path, bearer: admin, body.line)
                #expect(reply.status == 400 && reply.body.contains(field), "\(reply.body)")
            }
        }
    }

    @Test("Each bound of a rule holds over HTTP, and of the list of rules")
    func rules() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))/rules"
            for field in Rule.message.fields where field.isIn(.create) {
                for value in FieldCase.all(field.schema) {
                    var members = Rule.message.minimal(.create)
                    // Only these transports have ports.
                    if field.name == "ports" { members["transport"] = "tcp" }
                    members[field.name] = value.value
                    let rule = JSON.object(members)
                    let body: JSON = ["rules": .array([rule])]
                    let reply = try await bench.ask("PUT", path, bearer: admin, body.line)
                    let words = "\(field.name), \(value.name): \(reply.body)"
                    guard value.isAccepted else {
                        #expect(reply.status == 400 && reply.body.contains("rules[0].\(field.name)"), "\(words)")
                        continue
                    }
                    #expect(reply.status == 200, "\(words)")
                    #expect(reply.json["rules"]?.list?.first?[field.name]?.ordered == value.value, "\(words)")
                }
            }
            for field in Rule.message.fields where !field.isIn(.create) {
                var members = Rule.message.minimal(.create)
                members[field.name] = FieldCase.sample(field.schema, 0)
                let body: JSON = ["rules": .array([.object(members)])]
                let reply = try await bench.ask("PUT", path, bearer: admin, body.line)
                #expect(reply.status == 400 && reply.body.contains("rules[0].\(field.name)"), "\(field.name)")
            }
            for (count, status) in [(Rule.most, 200), (Rule.most + 1, 400)] {
                let rules = [JSON](repeating: ["action": "deny"], count: count)
                let body: JSON = ["rules": .array(rules)]
                #expect(try await bench.ask("PUT", path, bearer: admin, body.line).status == status)
            }
        }
    }

    @Test("Members that replies only show are refused in requests")
    func readOnly() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let id = try await bench.user("anna")
            for (form, method, path) in [
                (MessageForm.create, "POST", "/v1/users"), (.patch, "PATCH", "/v1/users/\(id)"),
            ] {
                for field in User.message.fields where !field.isIn(form) {
                    var members = User.message.minimal(form)
                    members[field.name] = FieldCase.sample(field.schema, 0)
                    let reply = try await bench.ask(method, path, bearer: admin, JSON.object(members).line)
                    #expect(reply.status == 400 && reply.body.contains(field.name), "\(form) \(field.name)")
                }
            }
        }
    }

    @Test(
        "A creation is repeated with its key in any order of members, and with members that have their standard value"
    )
    func idempotence() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let header = ["Idempotency-Key: abc"]
            for (body, status) in [
                (#"{"login":"anna","deviceLimit":2}"#, 201), (#"{"deviceLimit":2,"login":"anna"}"#, 200),
                (#"{"login":"anna","deviceLimit":2,"notes":"","expiresAt":null}"#, 200),
                (#"{"login":"anna","deviceLimit":3}"#, 409), (#"{"login":"anna"}"#, 409),
            ] {
                let reply = try await bench.ask("POST", "/v1/users", bearer: admin, body, headers: header)
                #expect(reply.status == status, "\(body): \(reply.body)")
            }
        }
    }
}
