// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import Provisioning
import Testing

@testable import Gateway

@Suite("Fields of a request's head")
struct RequestFieldsTests {
    private static func parameters(_ names: String...) -> [RouteDescription.Parameter] {
        names.map { RouteDescription.Parameter($0, .line(0...8), "") }
    }

    @Test("A bearer secret is read with its scheme in any case")
    func bearer() throws {
        #expect(try RequestFields.bearer([:]) == nil)
        for scheme in ["Bearer", "bearer", "BEARER"] {
            #expect(try RequestFields.bearer([.authorization: "\(scheme) ct_abc"]) == "ct_abc")
        }
    }

    @Test(
        "Other credentials are refused",
        arguments: [
            "Basic YTpi", "Bearer", "Bearer ", "Bearer a b", "Bearer é", "ct_abc",
            "Bearer " + String(repeating: "a", count: 300),
        ])
    func otherCredentials(value: String) {
        #expect(throws: GatewayError.unauthorized) { try RequestFields.bearer([.authorization: value]) }
    }

    @Test("Two credentials in one request are refused")
    func two() {
        var fields = HTTPFields()
        fields.append(HTTPField(name: .authorization, value: "Bearer a"))
        fields.append(HTTPField(name: .authorization, value: "Bearer b"))
        #expect(throws: GatewayError.unauthorized) { try RequestFields.bearer(fields) }
    }

    @Test("Queries are decoded once, and a plus sign is not changed")
    func query() throws {
        let query = try RequestFields.query("pubkey=a%2Bb+c%3D&pt=%2541", Self.parameters("pubkey", "pt"))
        #expect(query == ["pubkey": "a+b+c=", "pt": "%41"])
        #expect(try RequestFields.query("", []) == [:])
    }

    @Test(
        "Queries with unknown, repeated or undecodable parameters are refused",
        arguments: ["a=1", "b=1&b=2", "b=%4", "b=%zz", "b=%ff", "b=123456789", "b=%00", "b=%e2%80%a8"])
    func badQuery(text: String) {
        #expect(throws: GatewayError.self) { try RequestFields.query(text, Self.parameters("b")) }
    }

    @Test("Only JSON media types are accepted as JSON")
    func mediaType() {
        for type in ["application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"] {
            #expect(RequestFields.isJSON([.contentType: type]), "\(type)")
        }
        for type in ["text/plain", "application/jsonp", "", "application/x-www-form-urlencoded"] {
            #expect(!RequestFields.isJSON([.contentType: type]), "\(type)")
        }
        #expect(!RequestFields.isJSON([:]))
    }

    @Test("Times are written in the format of HTTP")
    func date() {
        #expect(HTTPDate.text(Date(timeIntervalSince1970: 784_111_777)) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(Date(timeIntervalSince1970: 0)) == "Thu, 01 Jan 1970 00:00:00 GMT")
    }
}
