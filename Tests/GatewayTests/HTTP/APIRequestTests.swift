// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import PacketTunnel
import PacketTunnelLinux
import Provisioning
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite("Requests of the API")
struct APIRequestTests {
    @Test("A repeated enrolment gets the same answer, and any other use of its invitation is refused")
    func enrolment() async throws {
        try await APIBench.use { bench in
            let device = try await bench.enrol(try await bench.user("anna"))
            let path = EnrolmentPath.enrolments
            let again = try await bench.ask("POST", path, on: .device, bearer: device.invitation, device.body)
            #expect(again.status == 200 && again.json["device"]?["id"]?.text == device.id)
            let other = try await bench.ask(
                "POST", path, on: .device, bearer: device.invitation, bench.enrolment().body)
            #expect(other.status == 403 && other.code == "invitationUsed")
            let audit = try await bench.ask(
                "GET", "/v1/audit?action=invitationMisused", bearer: try await bench.token(.readOnly))
            #expect(audit.json["items"]?.list?.count == 1)
            let none = try await bench.ask("POST", path, on: .device, bearer: nil, device.body)
            #expect(none.status == 401 && none.code == "unauthorized")
        }
    }

    @Test("A device rotates its key with a proof, and renews")
    func rotation() async throws {
        try await APIBench.use { bench in
            let device = try await bench.enrol(try await bench.user("anna"))
            let asked = try await bench.ask(
                "POST", EnrolmentPath.rotationNonces, on: .device, bearer: device.credential)
            let nonce = try RotationNonce(json: asked.json)
            var random = SystemRandomNumberGenerator()
            let key = PrivateKey(using: &random)
            let request = try #require(RotationRequest(from: device.key, to: key.publicKey, answering: nonce))
            let body = String(decoding: request.body, as: UTF8.self)
            for _ in 0..<2 {
                let done = try await bench.ask(
                    "POST", EnrolmentPath.rotations, on: .device, bearer: device.credential, body)
                #expect(done.status == 200 && done.json["device"]?["publicKey"]?.text == key.publicKey.base64)
            }
            #expect(
                try await bench.ask("POST", EnrolmentPath.renewal, on: .device, bearer: device.credential).status == 200
            )
            let wrong = body.replacing(key.publicKey.base64, with: PrivateKey(using: &random).publicKey.base64)
            let refused = try await bench.ask(
                "POST", EnrolmentPath.rotations, on: .device, bearer: device.credential, wrong)
            #expect(refused.status == 403)
        }
    }

    @Test("A user's password is set, removed and never shown; without a login tunnel, its settings are not found")
    func passwords() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let path = "/v1/users/\(try await bench.user("anna"))"
            #expect(try await bench.ask("GET", path, bearer: admin).json["hasPassword"] == .bool(false))
            let set = try await bench.ask("PUT", path + "/password", bearer: admin, #"{"password":"correct horse"}"#)
            #expect(set.status == 200 && set.json["hasPassword"] == .bool(true))
            for wrong in [#"{"password":"short"}"#, #"{"password":5}"#, "{}", #"{"password":"correct horse","x":1}"#] {
                #expect(try await bench.ask("PUT", path + "/password", bearer: admin, wrong).status == 400)
            }
            let reader = try await bench.token(.readOnly)
            #expect(
                try await bench.ask("PUT", path + "/password", bearer: reader, #"{"password":"correct horse"}"#).status
                    == 403)
            let gone = try await bench.ask("DELETE", path + "/password", bearer: admin)
            #expect(gone.status == 200 && gone.json["hasPassword"] == .bool(false))
            #expect(try await bench.ask("GET", "/v1/login-tunnel", bearer: admin).status == 404)
            #expect(try await bench.ask("GET", "/v1/login-tunnel", bearer: reader).status == 403)
        }
    }

    @Test("A text in a path that is not an ID is reported before the query and the body")
    func pathFirst() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let user = try await bench.user("anna")
            for (method, path, kind) in [
                ("PATCH", "/v1/users/anna", "user"), ("PATCH", "/v1/devices/x", "device"),
                ("POST", "/v1/users/x/rules", "user"), ("PUT", "/v1/devices/x/rules", "device"),
                ("DELETE", "/v1/tokens/x", "token"), ("DELETE", "/v1/invitations/x", "invitation"),
                ("DELETE", "/v1/users/\(user)/rules/x", "rule"), ("PATCH", "/v1/users/x?y=1", "user"),
            ] {
                for (body, type) in [("{", "application/json"), (#"{"x":1}"#, "application/json"), ("a", "text/plain")]
                {
                    let reply = try await bench.ask(
                        method, path, bearer: admin, body, headers: ["Content-Type: \(type)"])
                    #expect(reply.status == 404 && reply.code == "notFound", "\(method) \(path): \(reply.body)")
                    #expect(reply.json["detail"]?.text == "this \(kind) does not exist")
                }
            }
            let reply = try await bench.ask("PATCH", "/v1/users/\(user)", bearer: admin, "{")
            #expect(reply.status == 400)
        }
    }

    @Test("Users, devices, tokens, rules and the audit log are managed")
    func manage() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let made = try await bench.ask(
                "POST", "/v1/users", bearer: admin,
                #"{"login":"anna","name":"Anna","deviceLimit":2,"expiresAt":"2099-01-01T00:00:00Z"}"#)
            #expect(made.status == 201)
            let id = try #require(made.json["id"]?.text)
            #expect(try await bench.ask("POST", "/v1/users", bearer: admin, #"{"login":"anna"}"#).status == 409)
            let changed = try await bench.ask(
                "PATCH", "/v1/users/\(id)", bearer: admin, #"{"name":"A","expiresAt":null,"isEnabled":true}"#)
            #expect(changed.json["name"]?.text == "A" && changed.json["expiresAt"] == nil)
            #expect(try await bench.ask("GET", "/v1/users?login=anna", bearer: admin).json["items"]?.list?.count == 1)
            #expect(try await bench.ask("GET", "/v1/users?login=ben", bearer: admin).json["items"]?.list == [])
            let key = bench.enrolment().key.publicKey.base64
            let device = try await bench.ask(
                "POST", "/v1/devices", bearer: admin,
                #"{"user":"\#(id)","name":"router","publicKey":"\#(key)","subnets":["192.168.7.0/24"]}"#)
            #expect(device.status == 201)
            let deviceID = try #require(device.json["device"]?["id"]?.text)
            #expect(try await bench.ask("GET", "/v1/devices/\(deviceID)/grant", bearer: admin).status == 200)
            let shown = try await bench.ask("GET", "/v1/devices/\(deviceID)", bearer: admin)
            #expect(
                shown.json["kind"]?.text == "exported" && shown.json["subnets"]?.list == [.string("192.168.7.0/24")])
            let disabled = try await bench.ask(
                "PATCH", "/v1/devices/\(deviceID)", bearer: admin, #"{"isEnabled":false,"subnets":[]}"#)
            #expect(disabled.json["isEnabled"] == .bool(false) && disabled.json["subnets"]?.list == [])
            let rules =
                #"{"rules":[{"action":"allow","networks":["10.0.0.0/24"],"transport":"tcp","ports":["443","8000-8100"]},{"action":"deny","direction":"in"}]}"#
            for owner in ["users/\(id)", "devices/\(deviceID)"] {
                #expect(try await bench.ask("PUT", "/v1/\(owner)/rules", bearer: admin, rules).status == 200)
                let list = try await bench.ask("GET", "/v1/\(owner)/rules", bearer: admin).json["rules"]?.list
                #expect(list?.count == 2 && list?.first?["ports"]?.list == [.string("443"), .string("8000-8100")])
            }
            let token = try await bench.ask(
                "POST", "/v1/tokens", bearer: admin, #"{"name":"x","scope":"readOnly","lifetimeSeconds":60}"#)
            #expect(token.status == 201)
            let secret = try #require(token.json["secret"]?.text)
            #expect(try await bench.ask("GET", "/v1/status", bearer: secret).status == 200)
            let tokenID = try #require(token.json["token"]?["id"]?.text)
            #expect(try await bench.ask("DELETE", "/v1/tokens/\(tokenID)", bearer: admin).status == 200)
            #expect([401, 403].contains(try await bench.ask("GET", "/v1/status", bearer: secret).status))
            let invitation = try await bench.ask("POST", "/v1/invitations", bearer: admin, #"{"user":"\#(id)"}"#)
            let text = try Invitation(try #require(invitation.json["text"]?.text))
            #expect(text.host == "127.0.0.1" && text.pins == bench.place.pins)
            let invitationID = try #require(invitation.json["invitation"]?["id"]?.text)
            #expect(try await bench.ask("DELETE", "/v1/invitations/\(invitationID)", bearer: admin).status == 200)
            #expect(try await bench.ask("DELETE", "/v1/devices/\(deviceID)", bearer: admin).status == 204)
            #expect(try await bench.ask("DELETE", "/v1/users/\(id)", bearer: admin).status == 204)
            #expect(try await bench.ask("GET", "/v1/users/\(id)", bearer: admin).status == 404)
            #expect(try await bench.ask("POST", "/v1/server-key", bearer: admin).json["nextServerKey"] != nil)
            #expect(try await bench.ask("POST", "/v1/server-key", bearer: admin).status == 409)
            #expect(try await bench.ask("DELETE", "/v1/server-key", bearer: admin).status == 204)
            for path in [
                "/v1/audit", "/v1/tokens", "/v1/invitations", "/v1/devices", "/v1/status", "/health", "/ready",
            ] {
                #expect(try await bench.ask("GET", path, bearer: admin).status == 200, "\(path)")
            }
        }
    }

    @Test("/ready reports whether devices are served, and each problem with its time")
    func readiness() async throws {
        try await APIBench.use { bench in
            func ask(_ readiness: Readiness) async throws -> APIBench.Reply {
                bench.readiness.value.withLock { $0 = readiness }
                return try await bench.ask("GET", "/ready")
            }
            let ready = try await ask(Readiness())
            #expect(ready.status == 200 && ready.json == .object(["status": .string("ok")]))
            let excluded = NetworkProblem(what: "device abc: the system refuses 10.66.0.2", since: 1_767_225_600)
            let some = try await ask(Readiness(exclusions: [excluded]))
            #expect(some.status == 200 && some.json["status"]?.text == "ok")
            #expect(
                some.json["problems"]?.list == [
                    .object(["what": .string(excluded.what), "since": .string("2026-01-01T00:00:00Z")])
                ])
            let failed = NetworkProblem(what: "the firewall: nft is not installed", since: 1_767_225_601)
            let none = try await ask(Readiness(isReady: false, problems: [failed], exclusions: [excluded]))
            #expect(none.status == 503 && none.code == "unavailable")
            let problems = none.json["problems"]?.list ?? []
            #expect(problems.map { $0["what"]?.text } == [failed.what, excluded.what])
            var unsaved = Readiness()
            unsaved.unsaved = [failed]
            let served = try await ask(unsaved)
            #expect(served.status == 200 && served.json["problems"]?.list?.first?["what"]?.text == failed.what)
            var closed = Readiness()
            closed.listeners = [failed]
            let open = try await ask(closed)
            #expect(open.status == 200 && open.json["problems"]?.list?.first?["what"]?.text == failed.what)
            let many = (0..<1000).map { NetworkProblem(what: "device \($0)", since: 0) }
            #expect(try await ask(Readiness(exclusions: many)).json["problems"]?.list?.count == 100)
        }
    }

    @Test("The status warns of listeners that accept no connections")
    func closedListeners() async throws {
        try await APIBench.use { bench in
            let problem = NetworkProblem(what: "the device API has stopped listening", since: 0)
            bench.service.useListeners { [problem] }
            let status = try await bench.ask("GET", "/v1/status", bearer: try await bench.token(.admin))
            #expect(status.json["warnings"]?.list?.contains(.string(problem.what)) == true)
        }
    }

    @Test("Pages of a list contain each item once")
    func pages() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            for number in 0..<7 { _ = try await bench.user("user\(number)") }
            var (found, after): ([String], String?) = ([], nil)
            repeat {
                let page = try await bench.ask(
                    "GET", "/v1/users?limit=3" + (after.map { "&after=\($0)" } ?? ""), bearer: admin)
                found += (page.json["items"]?.list ?? []).compactMap { $0["login"]?.text }
                after = page.json["next"]?.text
            } while after != nil
            #expect(found.count == 7 && Set(found).count == 7)
            for query in ["limit=0", "limit=501", "limit=x", "limit=1&limit=1", "offset=1", "after=%ff"] {
                #expect(try await bench.ask("GET", "/v1/users?\(query)", bearer: admin).status == 400, "\(query)")
            }
        }
    }

    @Test("A creation with a key happens once, and another body with the key is refused")
    func idempotence() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let header = ["Idempotency-Key: abc-1"]
            let first = try await bench.ask("POST", "/v1/users", bearer: admin, #"{"login":"anna"}"#, headers: header)
            let again = try await bench.ask("POST", "/v1/users", bearer: admin, #"{"login":"anna"}"#, headers: header)
            #expect(first.status == 201 && again.status == 200 && first.json == again.json)
            let other = try await bench.ask("POST", "/v1/users", bearer: admin, #"{"login":"ben"}"#, headers: header)
            #expect(other.status == 409)
            let bad = ["Idempotency-Key: " + String(repeating: "a", count: 129)]
            #expect(
                try await bench.ask("POST", "/v1/users", bearer: admin, #"{"login":"c"}"#, headers: bad).status == 400)
        }
    }

    @Test(
        "Bodies that violate the documentation are refused, with the field",
        arguments: [
            (#"{"login":"a","isAdmin":true}"#, "isAdmin"), (#"{}"#, "login"), (#"{"login":1}"#, "login"),
            ("[]", "body"),
            (#"{"login":"a\u0000"}"#, "login"), (#"{"login":""}"#, "login"), ("{", "body"), ("", "body"),
            // Spaces at the ends, and characters without width: a reader cannot distinguish such a login from another.
            (#"{"login":"   "}"#, "login"), (#"{"login":"a "}"#, "login"), (#"{"login":"\u00a0a"}"#, "login"),
            (#"{"login":"\u3000"}"#, "login"), (#"{"login":"\u200b"}"#, "login"),
            (#"{"login":"an\u200dna"}"#, "login"), (#"{"login":"anna\u00ad"}"#, "login"),
            (#"{"login":"\u2060\ufeff"}"#, "login"), (#"{"login":"\u3164"}"#, "login"),
            (#"{"login":"a","deviceLimit":-1}"#, "deviceLimit"), (#"{"login":"a","deviceLimit":1e99}"#, "deviceLimit"),
            (#"{"login":"a","expiresAt":"tomorrow"}"#, "expiresAt"), (#"{"login":"a","name":null}"#, "name"),
            // A repeated member is refused, because JSON readers differ in which of the two they use.
            (#"{"login":"a","login":"b"}"#, "login"), (#"{"login":"a","name":"x","n\u0061me":"y"}"#, "name"),
            (#"{"login":"a","isAdmin":[{"b":1,"b":2}]}"#, "b:"), (#"\#u{feff}{"login":"a"}"#, "body"),
        ])
    func badBodies(body: String, field: String) async throws {
        try await APIBench.use { bench in
            let reply = try await bench.ask("POST", "/v1/users", bearer: try await bench.token(.admin), body)
            #expect(
                reply.status == 400 && reply.code == "requestInvalid" && reply.body.contains(field), "\(reply.body)")
        }
    }

    @Test("SQL and shell commands in a field are ordinary text")
    func injection() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            for text in [
                "'; DROP TABLE users; --", "$(reboot)", "`id`", "a' OR '1'='1", "\\\\x", "%s%n", "../../etc/passwd",
                "ÿ😀", "anna maria", "加賀",
            ] {
                let body = JSON.object(["login": .string(text), "notes": .string(text)])
                let made = try await bench.ask(
                    "POST", "/v1/users", bearer: admin, body.line)
                #expect(made.status == 201 && made.json["login"]?.text == text)
                for path in [
                    "/v1/audit?actor=\(AdminPath.escaped(text))", "/v1/users?after=\(AdminPath.escaped(text))",
                    "/v1/users/\(AdminPath.escaped(text))",
                ] {
                    let reply = try await bench.ask("GET", path, bearer: admin)
                    #expect([200, 400, 404].contains(reply.status), "\(path): \(reply.body)")
                }
            }
        }
    }

    @Test("Bodies that are too large, of another media type or unexpected are refused")
    func bodies() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let large = #"{"login":"\#(String(repeating: "a", count: 70_000))"}"#
            #expect(try await bench.ask("POST", "/v1/users", bearer: admin, large).status == 413)
            let chunk = String(repeating: "a", count: 70_000)
            let chunked = try await bench.send(
                "POST /v1/users HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(admin)\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\(String(chunk.utf8.count, radix: 16))\r\n\(chunk)\r\n0\r\n\r\n"
            )
            #expect(chunked.status == 413)
            let kind = try await bench.ask(
                "POST", "/v1/users", bearer: admin, #"{"login":"a"}"#, headers: ["Content-Type: text/plain"])
            #expect(kind.status == 415)
            #expect(try await bench.ask("DELETE", "/v1/server-key", bearer: admin, "{}").status == 400)
        }
    }

    @Test("A path has one valid spelling, and the reply to another method names the path's methods")
    func paths() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            for path in [
                "/", "/v1", "/v1/users/x/y/z", "/v2/users", "/v1/users%2f", "//v1/users", "/.git/config", "/v1//users",
                "/v1/users/", "/v1/users/abc/", "/V1/users", "/v1/%75sers", "/v1/users/../users", "/v1/users//rules",
                "/v1/users/abc/rules/",
            ] {
                let reply = try await bench.ask("GET", path, bearer: admin)
                #expect(reply.status == 404 && reply.code == "noSuchPath", "\(path): \(reply.body)")
            }
            let other = try await bench.ask("PUT", "/v1/users", bearer: admin)
            #expect(other.status == 405 && other.headers["allow"] == "GET, POST")
            for method in ["TRACE", "PROPFIND"] {
                let reply = try await bench.ask(method, "/v1/users", bearer: admin)
                #expect(reply.status == 405 && reply.headers["allow"] == "GET, POST", "\(method)")
            }
            let inner = try await bench.ask("POST", "/v1/users/abc", bearer: admin)
            #expect(inner.status == 405 && inner.headers["allow"] == "DELETE, GET, PATCH")
            let metrics = try await bench.ask("GET", "/metrics", bearer: admin)
            #expect(
                metrics.body.contains(
                    #"culvert_gateway_requests_total{listener="admin",route="none",status="405"} 4"#))
        }
    }

    @Test("A reply to HEAD has no body, and the connection stays usable")
    func head() async throws {
        try await APIBench.use { bench in
            for path in ["/v1/users", "/none"] {
                let reply = try await bench.send(
                    "HEAD \(path) HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                )
                #expect(reply.status == (path == "/none" ? 404 : 405))
                #expect(reply.body.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(reply.body)")
            }
        }
    }

    @Test("The document has each route of the listener with all of its replies")
    func document() async throws {
        try await APIBench.use { bench in
            let reply = try await bench.ask("GET", "/openapi.json")
            #expect(reply.status == 200 && reply.json["openapi"]?.text == "3.1.0")
            var documented: Set<String> = []
            guard case .object(let paths)? = reply.json["paths"] else { throw TestFailure("no paths") }
            for (path, item) in paths {
                guard case .object(let operations) = item else { continue }
                for (method, operation) in operations {
                    documented.insert("\(method.uppercased()) \(path)")
                    guard case .object(let responses)? = operation["responses"] else { continue }
                    let route = bench.routes(.admin).first {
                        $0.path == path && $0.method.rawValue == method.uppercased()
                    }
                    let wanted = (route?.replies.map(\.status) ?? []) + (route?.refusals ?? [])
                    #expect(Set(responses.keys) == Set(wanted.map(String.init)), "\(method) \(path)")
                }
            }
            let routes = bench.routes(.admin)
            #expect(documented == Set(routes.map { "\($0.method.rawValue) \($0.path)" }))
            // Each referenced schema exists.
            guard case .object(let schemas)? = reply.json["components"]?["schemas"] else {
                throw TestFailure("no schemas")
            }
            for reference in reply.body.matches(of: /#\/components\/schemas\/([A-Za-z]+)/) {
                #expect(schemas[String(reference.output.1)] != nil, "\(reference.output.1)")
            }
            let ids = reply.body.matches(of: /"operationId":"([A-Za-z]+)"/).map { String($0.output.1) }
            #expect(ids.count == routes.count && Set(ids).count == ids.count)
        }
    }
}

/// Texts in a path.
private enum AdminPath {
    static func escaped(_ text: String) -> String {
        text.utf8.map { byte in "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    }
}
