// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import TunnelSystem

@testable import Gateway

/// A type with a field of each kind.
private struct Sample: Declared, Hashable {
    enum Kind: String, CaseIterable { case one, two }

    let id: Int
    var name = ""
    var kind = Kind.one
    var limit: Int?
    var comment: String?
    var networks: [IPPrefix] = []
    var ports: [ClosedRange<UInt16>] = []
    var isOn = false
    var secret: String?
    var hidden = 0
    var part = Part()

    struct Part: Hashable {
        var first = 1
        var second = 2
    }

    static let message = Message<Sample> {
        Field("id", \.id, .count, column: "number")
        Field("name", \.name, .line(1...8), options: [.required, .patch], column: "name", .create("The name"))
        Field("kind", \.kind, .choice, options: .create, "The kind")
        Field(
            "limit", \.limit, .nullable(.integer(0...9), omitted: "default"), options: [.create, .patch],
            .patch("null for none"))
        Field("comment", \.comment, .omittable(.line(0...4)), options: [.create, .redacted, .patch])
        Field("networks", \.networks, .list(of: .network, count: 0...2), options: [.create, .patch])
        Field("ports", \.ports, .list(of: .ports, count: 1...2), options: .patch)
        Field("isOn", \.isOn, .flag, options: .patch, auditName: "on")
        Field(hidden: "hidden", \.hidden)
    }

    /// Settings with one object.
    static let settings = Message<Sample>(ignoresNull: true) {
        Field("name", \.name, .line(1...8), options: .patch)
        Field(
            part: "part", \.part,
            Message<Part> {
                Field("first", \.first, .integer(0...9), options: .patch)
                Field("second", \.second, .integer(0...9), options: .patch)
            })
    }
}

/// A value that is decoded as a whole.
private struct Whole: Sendable, Hashable {
    let id: RandomID
    let name: String
    let limit: Int?

    static let message = CompleteMessage<Whole>(
        Whole.init(id:name:limit:), TypedField("id", \.id, .id, "The ID"),
        TypedField("name", \.name, .line(0...4), absent: "x"),
        TypedField("limit", \.limit, .nullable(.integer(0...9), omitted: "none")))
}

@Suite("Declared messages") struct MessageTests {
    private let message = Sample.message

    private func decode(_ text: String, _ form: MessageForm = .patch) throws -> FieldValues<Sample> {
        try message.decode(try JSON.read(Array(text.utf8)), form)
    }

    private func error(_ text: String, _ form: MessageForm = .patch) -> ContractError? {
        #expect(throws: ContractError.self, "\(text)") { try decode(text, form) }
    }

    @Test("A reply has the declared members in their order, without omitted and hidden ones")
    func encoding() throws {
        var sample = Sample(id: 7, name: "a", isOn: true)
        #expect(
            message.encode(sample).line == #"{"id":7,"name":"a","kind":"one","networks":[],"ports":[],"isOn":true}"#)
        sample.limit = 3
        sample.comment = "x"
        sample.networks = [try IPPrefix("10.0.0.0/8")]
        sample.ports = [443...443, 8000...8100]
        #expect(
            message.encode(sample).line
                == #"{"id":7,"name":"a","kind":"one","limit":3,"comment":"x","networks":["10.0.0.0/8"],"ports":["443","8000-8100"],"isOn":true}"#
        )
    }

    @Test("A patch changes the given members only, and null removes a value")
    func patch() throws {
        var sample = Sample(id: 1, name: "a", limit: 3, comment: "x")
        try decode(#"{"limit":null,"isOn":true,"ports":["1-2"]}"#).apply(to: &sample)
        #expect(sample == Sample(id: 1, name: "a", limit: nil, comment: "x", ports: [1...2], isOn: true))
        try decode("{}").apply(to: &sample)
        #expect(sample.comment == "x")
        let values = try decode(#"{"limit":null,"name":"b"}"#)
        #expect(values.names == ["limit", "name"] && values.name == "b" && values.isOn == nil)
        #expect(values.limit == .some(nil))
        // Only nullable members can be null.
        #expect(error(#"{"comment":null}"#)?.field == "comment")
    }

    @Test("The error names the member that is unknown, not valid or missing")
    func errors() {
        #expect(error("{}", .create) == ContractError(field: "name", problem: "must be present"))
        #expect(error(#"{"x":1}"#) == ContractError(field: "x", problem: "is not a known member"))
        // U+212A is the Kelvin sign. Swift's `==` treats the name as equal to `publicKey`.
        #expect(throws: ContractError(field: "public\u{212a}ey", problem: "is not a known member")) {
            try Device.message.decode(["public\u{212a}ey": .string("")], .patch)
        }
        #expect(throws: ContractError(field: "public\u{212a}ey", problem: "is not a known member")) {
            try Device.message.decode(["public\u{212a}ey": .string("")], .create)
        }
        // A patch must not contain a member of replies, a hidden field, or a member of creations.
        for name in ["id", "hidden", "kind"] { #expect(error(#"{"\#(name)":1}"#)?.field == name) }
        #expect(error(#"{"name":"a","isOn":true}"#, .create)?.field == "isOn")
        #expect(error(#"{"networks":["10.0.0.0/8","x"]}"#)?.field == "networks[1]")
        #expect(error("[]")?.field == "body")
        let long = error(#"{"\#(String(repeating: "a", count: 99))\u0000":1}"#)
        #expect(long?.field.count == 40)
        let nested = #expect(throws: ContractError.self) {
            try message.decode(["networks": [:]], .patch, at: "items[3]")
        }
        #expect(nested?.field == "items[3].networks")
    }

    @Test("Each bound of each field holds, in creations and in patches")
    func bounds() throws {
        for form in [MessageForm.create, .patch] {
            for field in message.fields where field.isIn(form) {
                for value in FieldCase.all(field.schema) {
                    var members = message.minimal(form)
                    members[field.name] = value.value
                    let accepted = (try? message.decode(.object(members), form)) != nil
                    #expect(accepted == value.isAccepted, "\(form) \(field.name): \(value.name)")
                }
            }
        }
    }

    @Test("The schema of a request is closed and has bounds, unlike the schema of a reply")
    func schemas() {
        let members = [
            JSONSchema.Member("name", .line(1...8), note: "The name"),
            JSONSchema.Member("kind", .choice(["one", "two"]), isRequired: false, note: "The kind"),
            JSONSchema.Member("limit", .optional(.integer(0...9)), isRequired: false),
            JSONSchema.Member("comment", .line(0...4), isRequired: false),
            JSONSchema.Member("networks", .list(of: .prefix, count: 0...2), isRequired: false),
        ]
        #expect(message.schema(.create) == .object(members, isClosed: true))
        guard case .object(let patched, isClosed: true) = message.schema(.patch),
            case .object(let shown, isClosed: false) = message.schema(.reply)
        else {
            Issue.record("not an object")
            return
        }
        #expect(patched.map(\.name) == ["name", "limit", "comment", "networks", "ports", "isOn"])
        #expect(patched.allSatisfy { !$0.isRequired } && patched[1].note == "null for none" && patched[0].note == "")
        #expect(shown.map(\.name) == ["id", "name", "kind", "limit", "comment", "networks", "ports", "isOn"])
        #expect(shown.filter { !$0.isRequired }.map(\.name) == ["limit", "comment"])
        #expect(shown[1].schema == .text() && shown[3].schema == .count && shown[5].schema == .list(of: .prefix))
    }

    @Test("A part of a patch changes its given members only, and its errors have the whole path")
    func parts() throws {
        func decode(_ text: String) throws -> FieldValues<Sample> {
            try Sample.settings.decode(try JSON.read(Array(text.utf8)), .patch)
        }
        var sample = Sample(id: 1, name: "a")
        try decode(#"{"part":{"second":5}}"#).apply(to: &sample)
        #expect(sample.part == Sample.Part(first: 1, second: 5))
        try decode(#"{"name":null,"part":null}"#).apply(to: &sample)
        #expect(sample.name == "a" && sample.part.second == 5)
        #expect(Sample.settings.encode(sample).line == #"{"name":"a","part":{"first":1,"second":5}}"#)
        for (text, field) in [
            (#"{"part":{"second":10}}"#, "part.second"), (#"{"part":{"third":1}}"#, "part.third"),
            (#"{"part":{"first":null}}"#, "part.first"), (#"{"part":1}"#, "part"), (#"{"other":null}"#, "other"),
        ] {
            let error = #expect(throws: ContractError.self, "\(text)") { try decode(text) }
            #expect(error?.field == field)
        }
        try Sample.settings.check(sample)
        sample.part.first = -1
        let error = #expect(throws: ContractError.self) { try Sample.settings.check(sample) }
        #expect(error?.field == "part.first")
    }

    @Test("A complete message passes all values to the initialiser, and has no placeholder for a missing one")
    func complete() throws {
        let id = String(repeating: "a", count: 25) + "q"
        func decode(_ text: String, _ form: MessageForm = .create) throws -> Whole {
            try Whole.message.decode(try JSON.read(Array(text.utf8)), form, at: "whole")
        }
        let whole = Whole(id: try #require(RandomID(id)), name: "x", limit: nil)
        #expect(try decode(#"{"id":"\#(id)"}"#) == whole)
        #expect(try decode(#"{"id":"\#(id)","limit":null,"name":"x"}"#) == whole)
        #expect(try decode(#"{"id":"\#(id)","later":1}"#, .reply) == whole)
        let members: [JSON.Member] = [.init(name: "id", value: .string(id)), .init(name: "name", value: "x")]
        guard case .object(let encoded) = Whole.message.encode(whole) else {
            Issue.record("not an object")
            return
        }
        #expect(encoded == members)
        for (text, field) in [
            ("{}", "whole.id"), (#"{"id":"\#(id)","later":1}"#, "whole.later"),
            (#"{"id":"\#(id)","limit":10}"#, "whole.limit"),
            (#"{"id":"\#(id)","name":"12345"}"#, "whole.name"), ("[]", "whole"), (#"{"id":null}"#, "whole.id"),
        ] {
            let error = #expect(throws: ContractError.self, "\(text)") { try decode(text) }
            #expect(error?.field == field)
        }
        #expect(throws: ContractError.self) { try Whole.message.check(Whole(id: whole.id, name: "12345", limit: nil)) }
        try Whole.message.check(whole)
        let schema = Whole.message.schemaMembers(.create)
        #expect(schema.map(\.isRequired) == [true, false, false] && schema.first?.note == "The ID")
        #expect(schema.last?.schema == .optional(.integer(0...9)))
    }

    @Test("The columns are the fields that have a title")
    func columns() {
        #expect(message.columns().map(\.member) == ["id", "name"])
        let columns = message.columns(first: "name")
        #expect(columns.map(\.member) == ["name", "id"] && columns.map(\.title) == ["name", "number"])
    }

    @Test("Members that a program sets are checked like those of a request")
    func programs() throws {
        var values = FieldValues<Sample>()
        #expect(throws: ContractError(field: "name", problem: "must be present")) { try values.check(.create) }
        values.name = "a"
        values.limit = .some(nil)
        try values.check(.create)
        let decoded = try decode(#"{"limit":null,"name":"a"}"#)
        #expect(values == decoded)
        values.limit = 10
        #expect(throws: ContractError.self) { try values.check(.create) }
        values.limit = nil
        values.hidden = 5
        try values.check(.patch)
        #expect(values.names == ["name", "hidden"])
        var sample = Sample(id: 1)
        values.apply(to: &sample)
        #expect(sample == Sample(id: 1, name: "a", hidden: 5))
    }

    @Test("A member that is not given is absent, even if `nil` is a valid value")
    func absent() throws {
        var values = FieldValues<Sample>()
        #expect(values.limit == .none && values.name == nil && values.names == [])
        values.limit = .some(nil)
        #expect(values.limit == .some(nil) && values.names == ["limit"])
        values.limit = 3
        #expect(values.limit == 3)
        values.limit = .none
        #expect(values.limit == .none && values.names == [])
    }

    @Test("A member that the type does not declare is an error of the check")
    func undeclared() throws {
        var values = FieldValues<Sample>()
        values.isOn = true
        values.part = Sample.Part(first: 3)
        #expect(values.part == Sample.Part(first: 3))
        let error = #expect(throws: ContractError.self) { try values.check(.patch) }
        #expect(error?.problem == "is not a known member")
        values.part = nil
        try values.check(.patch)
        #expect(throws: ContractError.self) { try values.set(\.part, to: ["first": .integer(1)]) }
    }

    @Test("Audit details have the values, but not of redacted fields")
    func details() throws {
        var values = try decode(
            #"{"name":"a","limit":null,"comment":"x","isOn":false,"networks":["10.0.0.0/8","fd00::/8"]}"#)
        values.hidden = 5
        #expect(
            values.details == [
                "name": "a", "limit": "default", "comment": "changed", "on": "false", "networks": "10.0.0.0/8 fd00::/8",
                "hidden": "changed",
            ])
        #expect("\(values)" == "(name, limit, comment, isOn, networks, hidden)")
        var dumped = ""
        dump(values, to: &dumped)
        #expect(!dumped.contains("10.0.0.0"))
    }

    @Test("The canonical text is independent of the order of members and of default values")
    func canonicalText() throws {
        let standard = Sample(id: 1)
        func text(_ json: String) throws -> String { try decode(json, .create).canonicalText(standard: standard) }
        #expect(try text(#"{"name":"a"}"#) == #"{"name":"a"}"#)
        #expect(try text(#"{"limit":null,"networks":[],"name":"a"}"#) == #"{"name":"a"}"#)
        let one = try text(#"{"limit":1,"name":"a"}"#)
        #expect(try text(#"{"name":"a","limit":1}"#) == one)
        #expect(try text(#"{"limit":2,"name":"a"}"#) != one)
        let network = try text(#"{"name":"a","networks":["fd00::/8"]}"#)
        #expect(try text(#"{"name":"a","networks":["FD00:0::/8"]}"#) == network)
    }
}
