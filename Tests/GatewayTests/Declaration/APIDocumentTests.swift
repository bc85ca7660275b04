// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnel
import Provisioning
import Testing
import TunnelSystem

@testable import Gateway

/// The API's document, compared with the one that an earlier version served.
@Suite("The API's document") struct APIDocumentTests {
    /// Members of the earlier document whose limit was wider than the one that the service enforced.
    private static let narrowed: [String: JSON] = {
        let schemas = "components.schemas"
        return [
            "\(schemas).UserDraft.properties.login.maxLength": .integer(64),
            "\(schemas).UserDraft.properties.name.maxLength": .integer(64),
            "\(schemas).UserUpdate.properties.login.maxLength": .integer(64),
            "\(schemas).UserUpdate.properties.name.maxLength": .integer(64),
        ]
    }()

    /// Each value that is not an object, by its path.
    private func flat(_ json: JSON, _ path: String = "") -> [String: JSON] {
        guard case .object(let members) = json, !members.isEmpty else { return [path: json] }
        return members.reduce(into: [:]) { all, member in
            all.merge(flat(member.value, path.isEmpty ? member.name : "\(path).\(member.name)")) { $1 }
        }
    }

    @Test("The document is the earlier one, except for limits that are those of the service now")
    func golden() async throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Fixtures/api/openapi.json")
        let expected = flat(try JSON.read([UInt8](Data(contentsOf: file)))).merging(Self.narrowed) { $1 }
        try await APIBench.use { bench in
            let reply = try await bench.ask("GET", "/openapi.json")
            let found = flat(try JSON.read(Array(reply.body.utf8)))
            for path in Set(expected.keys).union(found.keys).sorted() where path != "info.version" {
                #expect(found[path] == expected[path], "\(path)")
            }
        }
    }
}

@Suite("Bounds of the API") struct APIBoundsTests {
    @Test("Each bound of a user holds over HTTP")
    func users() async throws {
        for form in [MessageForm.create, .patch] {
            // Each form has its gateway: two users cannot have one login.
            try await APIBench.use { bench in
                let admin = try await bench.token(.admin)
                let id = try await bench.user("anna")
                let (method, path) = form == .create ? ("POST", "/v1/users") : ("PATCH", "/v1/users/\(id)")
                for field in User.message.fields where field.isIn(form) {
                    for value in FieldCase.all(field.schema) {
                        var members = User.message.minimal(form)
                        // Each user has another login.
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
