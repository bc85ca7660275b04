// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import PacketTunnel
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite("Permissions of the API")
struct APIAccessTests {
    private enum Asker: String, CaseIterable, Sendable {
        case nobody, unknown, admin, readOnly, enroller, addKey, device, invitation

        /// The kind of caller in the authorisation table.
        var role: CallerRole {
            switch self {
            // The test runs on this host.
            case .nobody: .localProcess
            case .unknown: .anonymous
            case .admin: .adminToken
            case .readOnly: .readOnlyToken
            case .enroller: .enrolToken
            case .addKey: .addKeyToken
            case .device: .device
            case .invitation: .invitation
            }
        }
    }

    @Test("Each route of each listener admits only the callers in the authorisation table")
    func everyRoute() async throws {
        try await APIBench.use(settings: { $0.metricsNeedToken = false }) { bench in
            let user = try await bench.user("anna")
            for side in APIBench.Side.allCases {
                for route in bench.routes(side) {
                    for asker in Asker.allCases {
                        let secret: String? =
                            switch asker {
                            case .nobody: nil
                            case .unknown: "ct_" + String(repeating: "A", count: 43)
                            case .admin: try await bench.token(.admin)
                            case .readOnly: try await bench.token(.readOnly)
                            case .enroller: try await bench.token(.enrol, of: user)
                            case .addKey: try await bench.token(.addKey, of: try await bench.newUser())
                            case .device:
                                try await bench.enrol(try await bench.user("\(UInt64.random(in: 0..<UInt64.max))"))
                                    .credential
                            case .invitation: try await bench.invitation(for: user)
                            }
                        let reply = try await ask(bench, route, side, secret)
                        let words = "\(asker): \(route.method) \(route.path) on \(side): \(reply.status) \(reply.body)"
                        #expect(reply.code != "noSuchPath", "\(words)")
                        if side == .foreignSocket {
                            #expect(reply.status == 403, "\(words)")
                        } else if side == .socket || route.access.roles.contains(asker.role) {
                            #expect(![401, 403].contains(reply.status), "\(words)")
                        } else {
                            // A caller may also be refused because it must wait after failures (429). An invitation is
                            // checked together with the request, which may be refused as not valid (400).
                            let refusals = [401, 403, 429] + (route.access == .invitation ? [400] : [])
                            #expect(refusals.contains(reply.status), "\(words)")
                            if reply.status == 401 {
                                #expect(reply.headers["www-authenticate"] == "Bearer", "\(words)")
                            }
                        }
                    }
                }
            }
        }
    }

    /// Sends a request with the caller's secret in the place that the route expects: in the query or as bearer secret.
    private func ask(
        _ bench: APIBench, _ route: RouteDescription, _ side: APIBench.Side, _ secret: String?
    ) async throws -> APIBench.Reply {
        let ids = route.path.split(separator: "/").filter { $0.hasPrefix("{") }.map { _ in
            String(repeating: "a", count: 26)
        }
        let isInQuery = route.access == .addKey
        let query = route.parameters.filter { isInQuery && $0.place == .query }.map { parameter in
            let key = bench.enrolment().key.publicKey.base64
            return (parameter: parameter, value: parameter.schema == .key ? key : secret ?? "")
        }
        return try await bench.ask(
            route.methodName, route.target(ids, query: query), on: side, bearer: isInQuery ? nil : secret,
            route.body == nil ? nil : "{}")
    }

    @Test("Each route with an Idempotency-Key makes one resource for a repeated request")
    func repeatedCreations() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            let user = try await bench.user("anna")
            let device = try await bench.enrol(user).id
            let key = bench.enrolment().key.publicKey.base64
            let rules = [#"{"rule":{"action":"allow"}}"#, #"{"rule":{"action":"deny"}}"#]
            /// Two bodies for each route.
            let bodies = [
                "/v1/users": [#"{"login":"ben"}"#, #"{"login":"carl"}"#],
                "/v1/devices": ["a", "b"].map { #"{"user":"\#(user)","name":"\#($0)","publicKey":"\#(key)"}"# },
                "/v1/tokens": ["a", "b"].map { #"{"scope":"readOnly","name":"\#($0)"}"# },
                "/v1/invitations": ["a", "b"].map { #"{"user":"\#(user)","deviceName":"\#($0)"}"# },
                "/v1/users/{id}/rules": rules, "/v1/devices/{id}/rules": rules,
            ]
            for side in [APIBench.Side.admin, .device, .addKey] {
                for route in bench.routes(side) {
                    let takesKey = route.parameters.contains { $0.name == "Idempotency-Key" && $0.place == .header }
                    let isListed = side == .admin && route.method == .post && bodies[route.path] != nil
                    #expect(takesKey == isListed, "\(route.method) \(route.path)")
                    guard takesKey, let bodies = bodies[route.path] else { continue }
                    let path = route.target([route.path.hasPrefix("/v1/users") ? user.description : device])
                    for (body, status) in [(bodies[0], 201), (bodies[0], 200), (bodies[1], 409)] {
                        let reply = try await bench.ask(
                            "POST", path, on: side, bearer: admin, body, headers: ["Idempotency-Key: \(route.path)"])
                        #expect(reply.status == status, "\(route.path): \(reply.body)")
                    }
                }
            }
        }
    }

    @Test("The administrators' API and the device API have separate listeners")
    func apart() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            for path in ["/v1/users", "/v1/tokens", "/v1/audit", "/v1/status", "/metrics", "/openapi.json", "/addKey"] {
                #expect(try await bench.ask("GET", path, on: .device, bearer: admin).status == 404, "\(path)")
            }
            for path in ["/v1/device", "/v1/enrolments", "/addKey"] {
                #expect(try await bench.ask("GET", path, on: .admin, bearer: admin).status == 404, "\(path)")
            }
        }
    }

    @Test("A device can list and revoke only devices of the same user")
    func others() async throws {
        try await APIBench.use { bench in
            let (anna, ben) = (try await bench.user("anna"), try await bench.user("ben"))
            let (phone, laptop) = (try await bench.enrol(anna), try await bench.enrol(anna))
            let stranger = try await bench.enrol(ben)
            let list = try await bench.ask("GET", "/v1/devices", on: .device, bearer: phone.credential)
            #expect(list.json["devices"]?.list?.count == 2 && !list.body.contains(stranger.id))
            let refused = try await bench.ask(
                "DELETE", "/v1/devices/\(stranger.id)", on: .device, bearer: phone.credential)
            #expect(refused.status == 404)
            #expect(try await bench.ask("GET", "/v1/device", on: .device, bearer: stranger.credential).status == 200)
            let gone = try await bench.ask("DELETE", "/v1/devices/\(laptop.id)", on: .device, bearer: phone.credential)
            #expect(gone.status == 204)
            let after = try await bench.ask("GET", "/v1/device", on: .device, bearer: laptop.credential)
            #expect(after.status == 401 && after.code == "deviceUnknown")
        }
    }

    @Test("Guessing is slowed down, and a valid secret is always accepted")
    func guesses() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            var statuses: [Int] = []
            for number in 0..<40 {
                let guess = "ct_" + String(repeating: "B", count: 41) + (number < 10 ? "0\(number)" : "\(number)")
                statuses.append(try await bench.ask("GET", "/v1/status", bearer: guess).status)
                #expect(try await bench.ask("GET", "/v1/status", bearer: admin).status == 200)
            }
            #expect(statuses.first == 401 && statuses.contains(429) && Set(statuses) == [401, 429])
            let limited = try await bench.ask("GET", "/v1/status", bearer: "ct_" + String(repeating: "C", count: 43))
            if limited.status == 429 { #expect(Int(limited.headers["retry-after"] ?? "") ?? 0 > 0) }
        }
    }

    @Test("No token permits a backup, and the socket does")
    func backups() async throws {
        try await APIBench.use { bench in
            let body = #"{"passphrase":"correct horse battery"}"#
            for scope in [Token.Scope.admin, .readOnly] {
                let reply = try await bench.ask(
                    "POST", "/v1/backups", bearer: try await bench.token(scope), body)
                #expect(reply.status == 403 && reply.code == "forbidden", "\(scope): \(reply.body)")
            }
            #expect(try await bench.ask("POST", "/v1/backups", body).status == 401)
            let made = try await bench.ask("POST", "/v1/backups", on: .socket, body)
            #expect(made.status == 200 && made.headers["transfer-encoding"] == "chunked")
            #expect(made.body == "yrettab esroh tcerroc".map { "1\r\n\($0)\r\n" }.joined() + "0\r\n\r\n")
        }
    }

    @Test("Cookies and other authentication schemes are not accepted as credentials")
    func cookies() async throws {
        try await APIBench.use { bench in
            let admin = try await bench.token(.admin)
            for header in ["Cookie: token=\(admin)", "Authorization: Basic \(admin)", "X-Api-Key: \(admin)"] {
                #expect(try await bench.ask("GET", "/v1/users", headers: [header]).status == 401, "\(header)")
            }
            #expect(try await bench.ask("GET", "/v1/users?token=\(admin)").status == 401)
            let twice = ["Authorization: Bearer \(admin)", "Authorization: Bearer \(admin)"]
            #expect(try await bench.ask("GET", "/v1/users", headers: twice).status == 401)
        }
    }

    @Test("Metrics need a token even from this host, which a reverse proxy is on, but not on the socket")
    func metricsNeedToken() async throws {
        try await APIBench.use { bench in
            #expect(try await bench.ask("GET", "/metrics").status == 401)
            let reader = try await bench.token(.readOnly)
            #expect(try await bench.ask("GET", "/metrics", bearer: reader).status == 200)
            #expect(try await bench.ask("GET", "/metrics", on: .socket).status == 200)
            #expect(try await bench.ask("GET", "/metrics", on: .foreignSocket).status == 403)
        }
    }

    @Test("A setting opens metrics to this host, but not to a web page that reaches the host by a name")
    func metrics() async throws {
        try await APIBench.use(settings: { $0.metricsNeedToken = false }) { bench in
            let open = try await bench.ask("GET", "/metrics")
            #expect(open.status == 200 && open.headers["content-type"]?.hasPrefix("text/plain; version=0.0.4") == true)
            #expect(PrometheusFormat.problems(in: open.body) == [])
            let again = try await bench.ask("GET", "/metrics", bearer: try await bench.token(.readOnly))
            #expect(
                again.body.contains(
                    #"culvert_gateway_requests_total{listener="admin",route="/metrics",status="200"} 1"#))
            #expect(PrometheusFormat.problems(in: again.body) == [])
            let led = try await bench.send("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
            #expect(led.status == 401)
        }
    }

    @Test("The log contains no secret of any request")
    func log() async throws {
        try await APIBench.use { bench in
            let user = try await bench.user("anna")
            let device = try await bench.enrol(user)
            let admin = try await bench.token(.admin)
            let made = try await bench.ask(
                "POST", "/v1/invitations", bearer: admin, #"{"user":"\#(user)"}"#)
            #expect(made.status == 201)
            _ = try await bench.ask("GET", "/v1/users?pt=\(admin)", bearer: device.credential)
            _ = try await bench.ask(
                "POST", "/v1/enrolments", on: .device, bearer: device.invitation, bench.enrolment().body)
            for secret in [device.credential, device.invitation, admin, made.json["text"]?.text ?? "x"] {
                #expect(!bench.log.text.contains(secret.dropFirst(9)), "\(bench.log.text)")
            }
            #expect(bench.log.text.contains("refused"))
        }
    }
}
