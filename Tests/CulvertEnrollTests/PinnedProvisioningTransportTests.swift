// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import NIOHTTP1
import NetworkAddresses
import PacketTunnel
import Provisioning
import Synchronization
import Testing
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import PinnedProvisioning

/// Collects the lines of a log.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    var logger: Logger {
        Logger(label: "test") { [self] _ in Handler(lines: self) }
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.lines.withLock { $0.append("\(event.level): \(event.message)") } }
    }
}

@Suite("The transport over pinned TLS", .timeLimit(.minutes(2)))
struct PinnedProvisioningTransportTests {
    static let today = TestDate.today.date

    /// A leaf of a gateway: its own authority, with a backup key.
    struct Gateway {
        let leaf: TestCertificate
        let pins: [ServerKeyPin]

        init(
            host: String = "vpn.example.com", change: (inout CertificateTemplate) -> Void = { _ in }
        ) throws {
            let template = CertificateTemplate(subject: host, dnsNames: [host]).with(change)
            leaf = try TestCertificate(template, key: TestKey(.p256, "gateway active"))
            pins = try [leaf.pin, TestKey(.p256, "gateway backup").pin].map {
                try #require(ServerKeyPin("sha256/" + $0))
            }
        }
    }

    private func send(
        to server: ProvisioningServer, at date: Date = today, logger: Logger? = nil,
        change: (inout ProvisioningRequest) -> Void = { _ in }
    ) async throws(ProvisioningTransportError) -> ProvisioningReply {
        var request = ProvisioningRequest(server: server, target: "/v1/health")
        change(&request)
        let transport = PinnedProvisioningTransport(logger: logger ?? LogLines().logger, now: { date })
        return try await transport.send(request)
    }

    private func server(
        _ loopback: LoopbackServer, name: String = "vpn.example.com", trust: ServerTrust
    ) -> ProvisioningServer {
        ProvisioningServer(
            name: name, address: .v4(127, 0, 0, 1), port: UInt16(loopback.port), trust: trust)
    }

    @Test("Method, path, fields, bearer secret and body arrive, and the reply is returned with any status")
    func exchange() async throws {
        let gateway = try Gateway()
        let loopback = try await LoopbackServer.start(chain: [gateway.leaf.der], key: gateway.leaf.key) { _ in
            []
        } script: { _ in
            [.send(LoopbackServer.answer("403 Forbidden", #"{"code":"invitationUsed"}"#))]
        }
        let reply = try await send(to: server(loopback, trust: .pins(gateway.pins))) { request in
            request = ProvisioningRequest(
                server: request.server, method: .post, target: "/v1/enrolments?a=%2B%3D%26&b=1",
                bearer: SecretBytes(Array("ci_secret".utf8)), body: Array("{}".utf8))
        }
        #expect(reply.status == 403 && reply.body == Array(#"{"code":"invitationUsed"}"#.utf8))
        let seen = try #require(loopback.figures.requests.first)
        #expect(seen.head.method == .POST && seen.head.uri == "/v1/enrolments?a=%2B%3D%26&b=1")
        #expect(seen.head.headers["host"] == ["vpn.example.com:\(loopback.port)"])
        #expect(seen.head.headers["authorization"] == ["Bearer ci_secret"])
        #expect(seen.head.headers["content-type"] == ["application/json"] && seen.text == "{}")
    }

    @Test("A server with another key, name, use or date is refused, and gets no byte of the request")
    func untrusted() async throws {
        let gateway = try Gateway()
        for (what, change) in [
            ("name", { $0.dnsNames = ["other.example.com"] }), ("use", { $0.usages = [.clientAuth] }),
            ("date", { $0.notAfter = TestDate(2026, 5, 1) }),
        ] as [(String, (inout CertificateTemplate) -> Void)] {
            let wrong = try Gateway(change: change)
            let loopback = try await LoopbackServer.start(chain: [wrong.leaf.der], key: wrong.leaf.key)
            let error = await #expect(throws: ProvisioningTransportError.self, "\(what)") {
                try await send(to: server(loopback, trust: .pins(wrong.pins)))
            }
            guard case .untrusted = error else {
                Issue.record("\(what): \(String(describing: error))")
                continue
            }
            #expect(loopback.figures.applicationBytes == 0)
        }
        let thief = try TestCertificate(gateway.leaf.template, key: TestKey(.p256, "thief"))
        let loopback = try await LoopbackServer.start(chain: [thief.der], key: thief.key)
        let error = await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: server(loopback, trust: .pins(gateway.pins)))
        }
        guard case .untrusted(let reason) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.contains("no pin matches") && loopback.figures.applicationBytes == 0)
        // Neither the backup key's pin alone nor the system's authorities admit others.
        for trust in [ServerTrust.system, .pins([gateway.pins[0]])] {
            await #expect(throws: ProvisioningTransportError.self) {
                try await send(to: server(loopback, trust: trust))
            }
        }
    }

    @Test("The backup key is accepted like the active one")
    func backup() async throws {
        let gateway = try Gateway()
        let leaf = try TestCertificate(gateway.leaf.template, key: TestKey(.p256, "gateway backup"))
        let loopback = try await LoopbackServer.start(chain: [leaf.der], key: leaf.key)
        #expect(try await send(to: server(loopback, trust: .pins(gateway.pins))).status == 200)
    }

    @Test("A clock that was never set is reported as the cause, and a wrong clock is not")
    func clock() async throws {
        let gateway = try Gateway { $0.notBefore = TestDate(2000, 1, 1) }
        let loopback = try await LoopbackServer.start(chain: [gateway.leaf.der], key: gateway.leaf.key)
        let target = server(loopback, trust: .pins(gateway.pins))
        let error = await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: target, at: Date(timeIntervalSince1970: 60))
        }
        guard case .clockUnset(let reason) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.contains("1970-01-01T00:01:00Z"))
        #expect(try await send(to: target, at: TestDate(2010, 1, 1).date).status == 200)
        let young = try Gateway { $0.notBefore = TestDate(2026, 5, 1) }
        let other = try await LoopbackServer.start(chain: [young.leaf.der], key: young.leaf.key)
        let late = await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: server(other, trust: .pins(young.pins)), at: TestDate(2025, 6, 1).date)
        }
        guard case .untrusted = late else {
            Issue.record("\(String(describing: late))")
            return
        }
    }

    @Test("Redirections are returned as replies, and replies have limits of size and time")
    func limits() async throws {
        let gateway = try Gateway()
        let loopback = try await LoopbackServer.start(
            chain: [gateway.leaf.der], key: gateway.leaf.key
        ) { _ in
            []
        } script: { request in
            switch request.head.uri {
            case "/moved": [.send(LoopbackServer.answer("302 Found", "", ["Location: /elsewhere"]))]
            case "/long": [.send(LoopbackServer.ok(String(repeating: "x", count: 2000)))]
            default: []
            }
        }
        let target = server(loopback, trust: .pins(gateway.pins))
        #expect(try await send(to: target) { $0.target = "/moved" }.status == 302)
        #expect(loopback.figures.requests.count == 1)
        await #expect(throws: ProvisioningTransportError.tooLong(limit: 1000)) {
            try await send(to: target) { request in
                request.target = "/long"
                request.replyLimit = 1000
            }
        }
        let error = await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: target) { request in
                request.target = "/silent"
                request.timeout = .milliseconds(200)
            }
        }
        guard case .unreachable = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        // A mark that may not be set is not a failure.
        #expect(
            try await send(to: target) { request in
                request.target = "/moved"
                request.socketMark = 0x1234
            }.status == 302)
    }

    @Test("The caller's authorities verify a name that is not resolved, and a common name is logged")
    func authorities() async throws {
        let authority = try TestAuthority("Provider")
        let old = try authority.issue(
            CertificateTemplate(subject: "server401", dnsNames: []), key: TestKey(.p256, "old"))
        let loopback = try await LoopbackServer.start(chain: [old.der, authority.intermediate.der], key: old.key)
        let pem = authority.root.pem
        let lines = LogLines()
        await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: server(loopback, name: "server401", trust: .authorities(pem)), logger: lines.logger)
        }
        #expect(lines.all.isEmpty)
        let lenient = ServerTrust.authorities(pem, acceptsCommonName: true)
        #expect(
            try await send(to: server(loopback, name: "server401", trust: lenient), logger: lines.logger).status == 200)
        #expect(lines.all.count == 1 && lines.all[0].contains("server401") && lines.all[0].contains("common name"))
        await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: server(loopback, name: "server402", trust: lenient))
        }
        let error = await #expect(throws: ProvisioningTransportError.self) {
            try await send(to: server(loopback, name: "server401", trust: .authorities("none")))
        }
        guard case .unsupported = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }
}
