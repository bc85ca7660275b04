// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import Provisioning

/// A transport that follows a script, and records its requests.
final class ScriptedTransport: ProvisioningTransport {
    typealias Answer = @Sendable (ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply

    private let answer: Answer
    private let requests = Mutex<[ProvisioningRequest]>([])

    init(_ answer: @escaping Answer) { self.answer = answer }

    var asked: [ProvisioningRequest] { requests.withLock { $0 } }

    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
        requests.withLock { $0.append(request) }
        return try await answer(request)
    }
}

@Suite("The client of addKey", .timeLimit(.minutes(1)))
struct AddKeyClientTests {
    private let servers = ["one", "two", "three"].map { ProvisioningServer(name: "\($0).example", port: 1337) }
    private let key: PublicKey
    private let good: ProvisioningReply
    private let clock = VirtualClock()

    init() {
        var random = SeededGenerator(seed: 5)
        let key = Identity(PrivateKey(using: &random)).publicKey
        self.key = key
        let server = Identity(PrivateKey(using: &random)).publicKey
        good = ProvisioningReply(
            status: 200,
            body: Array(
                """
                {"status":"OK","server_key":"\(server.base64)","server_port":1337,"server_ip":"198.51.100.1",\
                "peer_ip":"10.9.3.7/32","peer_pubkey":"\(key.base64)","dns_servers":[]}
                """.utf8))
    }

    private func client(_ transport: ScriptedTransport) -> AddKeyClient {
        AddKeyClient(
            transport: transport, clock: clock, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            random: { SeededGenerator(seed: 1) })
    }

    private func register(_ transport: ScriptedTransport, from first: Int = 0) async throws(ProvisioningError) -> Int {
        try await client(transport).register(key, token: SecretBytes(Array("to+ken".utf8)), at: servers, from: first)
            .server
    }

    /// Registers while the clock advances whenever this number of sleepers waits.
    private func register(_ transport: ScriptedTransport, sleepers: Int) async throws(ProvisioningError) -> Int {
        let clock = clock
        let driver = Task {
            while !Task.isCancelled {
                if clock.sleeperCount >= sleepers { _ = clock.advanceToNextDeadline() }
                await Task.yield()
            }
        }
        defer { driver.cancel() }
        return try await register(transport)
    }

    @Test("The request is as the server documents it, and its description contains no token")
    func request() async throws {
        let good = good
        let transport = ScriptedTransport { _ throws(ProvisioningTransportError) in good }
        #expect(try await register(transport) == 0)
        let request = try #require(transport.asked.first)
        #expect(request.target == "/addKey?pubkey=\(QueryText.encode(key.base64.utf8))&pt=to%2Bken")
        #expect(request.fields.first?.name == "Host" && request.fields.first?.value == "one.example:1337")
        #expect(request.description == "GET https://one.example:1337/addKey")
    }

    @Test("Registration skips failing servers, from any index")
    func failover() async throws {
        let good = good
        let transport = ScriptedTransport { request throws(ProvisioningTransportError) in
            switch request.server.name {
            case "one.example": throw .unreachable("refused")
            case "two.example": return ProvisioningReply(status: 503, body: [])
            default: return good
            }
        }
        #expect(try await register(transport) == 2)
        #expect(transport.asked.map(\.server.name) == ["one.example", "two.example", "three.example"])
        #expect(try await register(transport, from: 4) == 2)
        #expect(transport.asked.dropFirst(3).map(\.server.name) == ["two.example", "three.example"])
    }

    @Test("A refusal ends the registration: no other server is asked")
    func refused() async {
        let transport = ScriptedTransport { _ throws(ProvisioningTransportError) in
            ProvisioningReply(status: 401, body: [])
        }
        let error = await #expect(throws: ProvisioningError.self) { try await register(transport) }
        #expect(error?.tunnelError.code == .authenticationFailed)
        #expect(transport.asked.count == 1)
    }

    @Test("All servers are asked repeatedly, at growing intervals, until the deadline, with the last failure as error")
    func deadline() async {
        let transport = ScriptedTransport { _ throws(ProvisioningTransportError) in throw .untrusted("another name") }
        let error = await #expect(throws: ProvisioningError.self) {
            // One sleep is for the deadline, and one for the pause.
            try await register(transport, sleepers: 2)
        }
        guard case .timedOut(.seconds(30), let last) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(last?.contains("another name") == true)
        #expect(transport.asked.count >= 3, "each of them at least once")
        #expect(clock.now.offset == .seconds(30))
    }

    @Test("A silent server uses only its share of the time")
    func silent() async throws {
        let (good, clock) = (good, clock)
        let transport = ScriptedTransport { request throws(ProvisioningTransportError) in
            if request.server.name == "one.example" { try? await clock.sleep(for: .seconds(1000)) }
            return good
        }
        // The sleeps are for the deadline, the request and the server.
        #expect(try await register(transport, sleepers: 3) == 1)
        #expect(clock.now.offset == .seconds(10))
    }

    @Test("After a reply that is too long, the next server is tried")
    func tooLong() async throws {
        let good = good
        let transport = ScriptedTransport { request throws(ProvisioningTransportError) in
            request.server.name == "one.example"
                ? ProvisioningReply(status: 200, body: [UInt8](repeating: 32, count: 65_537)) : good
        }
        #expect(try await register(transport) == 1)
    }

    @Test("Without servers the registration fails")
    func none() async {
        let transport = ScriptedTransport { _ throws(ProvisioningTransportError) in throw .unreachable("") }
        await #expect(throws: ProvisioningError.noServers) {
            try await client(transport).register(key, token: SecretBytes([1]), at: [])
        }
    }
}
