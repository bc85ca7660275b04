// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing

@testable import Gateway

@Suite("Requests that change lists")
struct ListRequestTests {
    private static func rule(_ number: Int) -> String { #"{"action":"deny","notes":"\#(number)"}"# }
    private static func addition(_ number: Int, isFirst: Bool = false) -> String {
        #"{"rule":\#(rule(number)),"isFirst":\#(isFirst)}"#
    }

    private func notes(_ reply: APIBench.Reply) -> [String] {
        (reply.json["rules"]?.list ?? []).compactMap { $0["notes"]?.text }
    }

    @Test("Twenty rules that are added in parallel all exist")
    func parallel() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))/rules"
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<20 {
                    group.addTask { try await bench.ask("POST", path, bearer: admin, Self.addition(number)).status }
                }
                for try await status in group { #expect(status == 201) }
            }
            let found = notes(try await bench.ask("GET", path, bearer: admin))
            #expect(Set(found) == Set((0..<20).map { "\($0)" }) && found.count == 20)
        }
    }

    @Test("A list is replaced only if it matches If-Match, and always without If-Match")
    func conditions() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))/rules"
            func put(_ number: Int, _ tag: String? = nil) async throws -> APIBench.Reply {
                try await bench.ask(
                    "PUT", path, bearer: admin, #"{"rules":[\#(Self.rule(number))]}"#,
                    headers: tag.map { ["If-Match: \($0)"] } ?? [])
            }
            let empty = try #require(try await bench.ask("GET", path, bearer: admin).headers["etag"])
            let first = try await put(1, empty)
            #expect(first.status == 200)
            for tag in [empty, #""other""#, #"W/\#(first.headers["etag"] ?? "")"#] {
                let refused = try await put(2, tag)
                #expect(refused.status == 412 && refused.code == "preconditionFailed", "\(tag)")
                #expect(refused.json["detail"]?.text?.contains("read it again") == true)
            }
            for tag in ["", "other", #""other"#, #""a" "b""#, #""a","#] {
                #expect(try await put(2, tag).status == 400, "\(tag)")
            }
            let shown = try await bench.ask("GET", path, bearer: admin)
            #expect(notes(shown) == ["1"] && shown.headers["etag"] == first.headers["etag"])
            #expect(try await put(2, #"\#(empty), \#(shown.headers["etag"] ?? "")"#).status == 200)
            #expect(try await put(3, "*").status == 200)
            // An added rule changes the version.
            let version = try #require(try await bench.ask("GET", path, bearer: admin).headers["etag"])
            let added = try await bench.ask("POST", path, bearer: admin, Self.addition(4, isFirst: true))
            #expect(added.status == 201 && notes(added) == ["4", "3"] && added.headers["etag"] != version)
            #expect(try await put(5, version).status == 412)
            let id = try #require(added.json["rules"]?.list?.first?["id"]?.text)
            for status in [200, 404] {
                let removed = try await bench.ask("DELETE", "\(path)/\(id)", bearer: admin)
                #expect(removed.status == status && (status == 404 || self.notes(removed) == ["3"]))
            }
            #expect(try await bench.ask("DELETE", "\(path)/x", bearer: admin).status == 404)
            // Older clients send no condition.
            #expect(notes(try await put(6)) == ["6"])
        }
    }

    @Test("A repeated addition with its key adds one rule; additions are checked and limited like whole lists")
    func additions() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))/rules"
            let key = ["Idempotency-Key: abc"]
            for status in [201, 200] {
                let added = try await bench.ask("POST", path, bearer: admin, Self.addition(0), headers: key)
                #expect(added.status == status && notes(added) == ["0"])
            }
            #expect(try await bench.ask("POST", path, bearer: admin, Self.addition(1), headers: key).status == 409)
            for body in [
                "{}", #"{"rule":{}}"#, #"{"rule":{"action":"deny"},"isFirst":1}"#, Self.rule(1),
                #"{"rule":{"action":"deny","ports":["53"]}}"#,
            ] {
                #expect(try await bench.ask("POST", path, bearer: admin, body).status == 400, "\(body)")
            }
            let all = (0..<99).map(Self.rule).joined(separator: ",")
            #expect(try await bench.ask("PUT", path, bearer: admin, #"{"rules":[\#(all)]}"#).status == 200)
            #expect(try await bench.ask("POST", path, bearer: admin, Self.addition(99)).status == 201)
            let full = try await bench.ask("POST", path, bearer: admin, Self.addition(100))
            #expect(full.status == 400 && full.json["detail"]?.text?.contains("rules") == true)
            let nobody = "/v1/users/\(String(repeating: "a", count: 26))/rules"
            #expect(try await bench.ask("POST", nobody, bearer: admin, Self.addition(1)).status == 404)
        }
    }

    @Test("Addresses in cooldown are listed with user and times, and only administrators can clear them")
    func cooldowns() async throws {
        try await APIBench.use { bench in
            let (admin, reader) = (try await bench.token(.admin), try await bench.token(.readOnly))
            let user = try await bench.user("anna")
            let (phone, laptop) = (try await bench.enrol(user), try await bench.enrol(try await bench.user("ben")))
            for device in [phone, laptop] {
                #expect(try await bench.ask("DELETE", "/v1/devices/\(device.id)", bearer: admin).status == 204)
            }
            let list = try await bench.ask("GET", "/v1/cooldowns", bearer: reader)
            #expect(list.status == 200 && list.json["items"]?.list?.count == 4)
            let own = try await bench.ask("GET", "/v1/cooldowns?user=\(user)&limit=1", bearer: reader)
            #expect(own.json["items"]?.list?.first?["login"]?.text == "anna" && own.json["next"] != nil)
            let address = try #require(own.json["items"]?.list?.first?["address"]?.text)
            #expect(try await bench.ask("DELETE", "/v1/cooldowns", bearer: reader).status == 403)
            let one = "/v1/cooldowns?address=\(address)"
            #expect(try await bench.ask("DELETE", one, bearer: admin).json["cleared"] == .integer(1))
            #expect(try await bench.ask("DELETE", one, bearer: admin).status == 404)
            for query in ["address=x", "user=x", "network=x"] {
                #expect(try await bench.ask("DELETE", "/v1/cooldowns?\(query)", bearer: admin).status == 400)
            }
            let cleared = try await bench.ask("DELETE", "/v1/cooldowns?user=\(user)", bearer: admin)
            #expect(cleared.json["cleared"] == .integer(1))
            #expect(try await bench.ask("DELETE", "/v1/cooldowns", bearer: admin).json["cleared"] == .integer(2))
            #expect(try await bench.ask("GET", "/v1/cooldowns", bearer: reader).json["items"]?.list == [])
            let audit = try await bench.ask("GET", "/v1/audit?action=cooldownsCleared", bearer: reader)
            #expect(
                audit.json["items"]?.list?.compactMap { $0["subject"]?.text }
                    == ["gateway", "user:\(user)", "address:\(address)"])
        }
    }

    @Test("Entity tags are parsed as RFC 9110 specifies")
    func entityTags() {
        #expect(EntityTag.versions(of: #""a""#) == ["a"])
        #expect(EntityTag.versions(of: " \"a+/=,\" ,\tW/\"b\", \"\"") == ["a+/=,", ""])
        for text in ["", "a", "\"a", "w/\"a\"", "\"a\";", "\"a b\"", ",\"a\""] {
            #expect(EntityTag.versions(of: text) == nil, "\(text)")
        }
    }
}
