// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import TunnelServer
import TunnelSystem

@testable import Gateway

@Suite("The declaration of the settings") struct GatewaySettingsTests {
    /// The members that are not objects, with their paths.
    private func leaves(_ schema: JSONSchema, _ path: [String] = []) -> [(path: [String], schema: JSONSchema)] {
        guard case .object(let members, isClosed: true) = schema else { return [(path, schema)] }
        return members.flatMap { leaves($0.schema, path + [$0.name]) }
    }

    private func nested(_ path: [String], _ value: JSON) -> JSON {
        path.reversed().reduce(value) { .object(of: [($1, $0)]) }
    }

    /// The error of a file that starts with valid settings.
    private func error(_ members: String) -> GatewayError? {
        #expect(throws: GatewayError.self, "\(members)") {
            try GatewaySettings(json: Array(#"{"host":"a.example","addresses":["10.0.0.1/24"],\#(members)}"#.utf8))
        }
    }

    @Test("Each bound of each setting holds, and the error names the setting")
    func bounds() {
        let all = leaves(GatewaySettings.message.schema(.patch))
        #expect(all.contains { $0.path == ["loginTunnel", "passwordCost", "n"] })
        for (path, schema) in all {
            for value in FieldCase.all(schema) where value.value != .null {
                let (body, name) = (nested(path, value.value), path.joined(separator: "."))
                guard !value.isAccepted else {
                    #expect(throws: Never.self, "\(name): \(value.name)") {
                        try GatewaySettings.message.decode(body, .patch)
                    }
                    continue
                }
                let error = #expect(throws: GatewayError.self, "\(name): \(value.name)") {
                    try GatewaySettings(json: body.bytes)
                }
                guard case .invalid(let field, _)? = error else { continue }
                #expect(field.hasPrefix("gateway.json: \(name)"), "\(value.name)")
            }
        }
    }

    @Test("Each setting has a member with its name")
    func complete() {
        func check<Root>(_ root: Root, _ message: Message<Root>) {
            #expect(Set(Mirror(reflecting: root).children.compactMap(\.label)) == Set(message.fields.map(\.name)))
        }
        check(GatewaySettings(), GatewaySettings.message)
        check(GatewaySettings.AddKey(), GatewaySettings.AddKey.message)
        check(GatewaySettings.LoginTunnel(), GatewaySettings.LoginTunnel.message)
    }

    private func value(_ settings: GatewaySettings, at path: [String]) -> JSON? {
        path.reduce(GatewaySettings.message.encode(settings) as JSON?) { $0?[$1] }
    }

    /// Values for a setting, made from its schema.
    private func candidates(_ schema: JSONSchema) -> [JSON] {
        if case .optional(let inner) = schema { return candidates(inner) }
        if case .object(let members, _) = schema {
            return [.object(of: members.map { ($0.name, FieldCase.sample($0.schema, 0)) })]
        }
        return [FieldCase.sample(schema, 0)] + FieldCase.all(schema).filter(\.isAccepted).map(\.value)
    }

    /// Changes a setting to a value that differs from its default and that the other settings permit.
    /// - Returns: `nil` if there is no such value.
    private func changed(_ settings: GatewaySettings, at path: [String], _ schema: JSONSchema) -> GatewaySettings? {
        let standard = value(GatewaySettings(), at: path)
        for candidate in candidates(schema) {
            guard let patch = try? GatewaySettings.message.decode(nested(path, candidate), .patch) else { continue }
            var new = settings
            patch.apply(to: &new)
            if new.problem == nil, value(new, at: path) != standard { return new }
        }
        return nil
    }

    @Test("Files with every setting changed are read with the values that were written")
    func roundTrip() throws {
        var rest = leaves(GatewaySettings.message.schema(.patch))
        #expect(rest.count > 45)
        // WireGuard can be off only with the login tunnel and without addKey.
        for hasLoginTunnel in [false, true] {
            var settings = GatewaySettings()
            settings.host = "vpn.example.com"
            settings.addresses = [try InterfaceAddress("10.66.0.1/16")]
            settings.loginTunnel.isEnabled = hasLoginTunnel
            var done: Set<[String]> = []
            // The second pass changes the settings that depend on a later one.
            for (path, schema) in rest + rest where !done.contains(path) {
                guard let new = changed(settings, at: path, schema) else { continue }
                settings = new
                done.insert(path)
            }
            let read = try GatewaySettings(json: settings.text)
            #expect(read == settings && settings.text.last == UInt8(ascii: "\n"))
            for path in done {
                let (found, name) = (value(read, at: path), path.joined(separator: "."))
                #expect(found == value(settings, at: path) && found != value(GatewaySettings(), at: path), "\(name)")
            }
            rest.removeAll { done.contains($0.path) }
        }
        #expect(rest.isEmpty, "no other value of \(rest.map { $0.path.joined(separator: ".") })")
    }

    @Test("Settings with an IPv6 host and several elements are read with the values that were written")
    func forms() throws {
        var settings = GatewaySettings()
        settings.host = "2001:db8::1"
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd00:66::1/64")]
        settings.endpoints = [try EndpointAddress("vpn.example.com:51820"), try EndpointAddress("[2001:db8::1]:5")]
        settings.services = ["tcp/22", "udp/53"]
        #expect(try GatewaySettings(json: settings.text) == settings)
    }

    @Test(
        "The gateway accepts the same search domains as clients",
        arguments: ["corp.example", "a_b.example", "example."])
    func searchDomains(domain: String) throws {
        let members = #""host":"a.example","addresses":["10.0.0.1/24"],"searchDomains":["\#(domain)"]"#
        #expect(try GatewaySettings(json: Array("{\(members)}".utf8)).searchDomains == [domain])
    }

    @Test("A limit of devices that exceeds the addresses for them causes a warning")
    func poolWarning() throws {
        func settings(_ members: String) throws -> GatewaySettings {
            try GatewaySettings(json: Array(#"{"host":"a.example",\#(members)}"#.utf8))
        }
        let small = try settings(#""addresses":["10.0.0.1/24","fd00::1/64"],"devices":254"#)
        #expect(small.poolWarning?.contains("10.0.0.0/24 has 253 addresses") == true)
        #expect(try settings(#""addresses":["10.0.0.1/24"],"devices":253"#).poolWarning == nil)
        #expect(try settings(#""addresses":["10.66.0.1/16"]"#).poolWarning == nil)
    }

    @Test("A byte order mark before the settings is an error that names it")
    func byteOrderMark() throws {
        let error = #expect(throws: GatewayError.self) {
            try GatewaySettings(json: Array("\u{feff}{\"host\":\"a.example\"}".utf8))
        }
        #expect(error.map { "\($0)".contains("byte order mark") } == true)
    }

    @Test("Members that are unknown or occur twice are refused with their path")
    func paths() {
        for (members, field) in [
            (#""hots":"x""#, "hots"), (#""api":{"prot":1}"#, "api.prot"),
            (#""adminTLS":{"key":"/k"}"#, "adminTLS.certificate"),
            (#""adminTLS":{"key":"/k","certificate":"/c","x":1}"#, "adminTLS.x"), (#""host":"b.example""#, "host"),
            (#""loginTunnel":{"passwordCost":{"n":2,"n":4}}"#, "loginTunnel.passwordCost.n"),
            (#""loginTunnel":{"passwordCost":{"m":2}}"#, "loginTunnel.passwordCost.m"),
            (#""dns":["10.0.0.53","x"]"#, "dns[1]"),
            (#""searchDomains":["corp.example","bücher.example"]"#, "searchDomains[1]"),
            (#""searchDomains":["corp example"]"#, "searchDomains[0]"),
            (#""searchDomains":["10.0.0.53"]"#, "searchDomains[0]"),
            (#""addKey":{"listener":{"addresses":[]}}"#, "addKey.listener.addresses"),
        ] {
            guard case .invalid(let found, _)? = error(members) else { continue }
            #expect(found == "gateway.json: \(field)")
        }
        for (text, words) in [("{", "at byte 1"), ("[]", "must be a JSON object")] {
            let error = #expect(throws: GatewayError.self) { try GatewaySettings(json: Array(text.utf8)) }
            guard case .invalid("gateway.json", let problem)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(problem.contains(words))
        }
    }

    @Test("A setting that is absent or null in the file has its default, even inside a group")
    func defaults() throws {
        let text =
            #"{"host":"a.example","addresses":["10.0.0.1/24"],"dns":null,"api":{"port":9},"admin":{"port":null},"loginTunnel":{"port":null}}"#
        var wanted = GatewaySettings()
        wanted.host = "a.example"
        wanted.addresses = [try InterfaceAddress("10.0.0.1/24")]
        wanted.api.port = 9
        #expect(try GatewaySettings(json: Array(text.utf8)) == wanted)
    }

    @Test("The tables of docs/gateway.md have exactly the settings")
    func documented() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/gateway.md")
        let lines = String(decoding: try Data(contentsOf: file), as: UTF8.self).split(
            separator: "\n", omittingEmptySubsequences: false)
        func names(_ heading: String) -> [String] {
            let rows = lines.drop { $0 != heading }.dropFirst(2).prefix { $0.hasPrefix("|") }
            return rows.flatMap { row in
                (row.split(separator: "|").first ?? "").matches(of: /`([A-Za-z0-9]+)`/).map { String($0.output.1) }
            }
        }
        #expect(names("| Setting | Meaning |").sorted() == GatewaySettings.message.fields.map(\.name).sorted())
        let loginTunnel = GatewaySettings.LoginTunnel.message.fields.map(\.name)
        #expect(names("| Setting | Default | Meaning |").sorted() == loginTunnel.sorted())
    }
}
