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

    /// The error of a file that begins as a usable one.
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

    @Test("Each setting has a member of its name")
    func complete() {
        func check<Root>(_ root: Root, _ message: Message<Root>) {
            #expect(Set(Mirror(reflecting: root).children.compactMap(\.label)) == Set(message.fields.map(\.name)))
        }
        check(GatewaySettings(), GatewaySettings.message)
        check(GatewaySettings.AddKey(), GatewaySettings.AddKey.message)
        check(GatewaySettings.LoginTunnel(), GatewaySettings.LoginTunnel.message)
    }

    @Test("A file with every setting changed is read as it was written")
    func roundTrip() throws {
        var settings = GatewaySettings()
        settings.host = "2001:db8::1"
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd00:66::1/64")]
        settings.adminTLS = GatewaySettings.CertificateFiles(certificate: "/a.crt", key: "/a.key")
        settings.endpoints = [try EndpointAddress("vpn.example.com:51820"), try EndpointAddress("[2001:db8::1]:5")]
        settings.services = ["tcp/22", "udp/53"]
        settings.loginTunnel.sessionLifetimeSeconds = 7
        settings.failures.memory = 8
        settings.ipv6 = .routed
        #expect(try GatewaySettings(json: settings.text) == settings)
        #expect(settings.text.last == UInt8(ascii: "\n"))
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

    @Test("A setting that is absent or null in the file has its default, in parts too")
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
        #expect(names("| Setting | What it is |").sorted() == GatewaySettings.message.fields.map(\.name).sorted())
        let loginTunnel = GatewaySettings.LoginTunnel.message.fields.map(\.name)
        #expect(names("| Setting | Default | What it is |").sorted() == loginTunnel.sorted())
    }
}
