// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

/// The authority of all tests that need no other.
enum Shared {
    static let authority = Result { try TestAuthority() }
}

extension LoopbackServer {
    /// Starts a server for `www.example.com` with a certificate of the shared authority.
    static func start(
        script: @escaping Script = { _ in [.send(ok("hello"))] }
    ) async throws -> LoopbackServer {
        try await start(onHead: { _ in [] }, script: script)
    }

    /// Starts a server that runs `onHead` when the head of a request arrives, before its body.
    static func start(
        onHead: @escaping @Sendable (HTTPRequestHead) -> [Step], script: @escaping Script
    ) async throws -> LoopbackServer {
        let authority = try Shared.authority.get()
        return try await start(
            chain: authority.served, key: authority.leaf.key, onHead: onHead, script: script)
    }

    /// Returns the URL of a path on this server.
    func url(_ path: String = "/", host: String = "www.example.com") throws -> URL {
        guard let url = URL(string: "https://\(host):\(port)\(path)") else { throw URLError() }
        return url
    }

    struct URLError: Error {}

    /// Creates a session that connects to this server for the test names, with `verdict` on it.
    func session(
        _ verdict: ServerVerdict = ServerVerdict(isTrusted: true, reason: "test"),
        hosts: [String] = testHosts,
        configure: (inout PinnedSession.Configuration) throws -> Void = { _ in }
    ) throws -> PinnedSession {
        try session(tls: PinnedTLS { _ in verdict }, hosts: hosts, configure: configure)
    }

    func session(
        tls: PinnedTLS, hosts: [String] = testHosts,
        configure: (inout PinnedSession.Configuration) throws -> Void = { _ in }
    ) throws -> PinnedSession {
        var configuration = PinnedSession.Configuration()
        // The machine may be busy for a long time.
        configuration.connectTimeout = .seconds(120)
        for host in hosts { try configuration.setDetour(from: "\(host):\(port)", to: "127.0.0.1:\(port)") }
        try configure(&configuration)
        return PinnedSession(tls: tls, configuration: configuration)
    }

    /// Creates a pool of one connection to this server, which it trusts.
    func pool(keepAlive: TimeAmount = .seconds(60)) throws -> ConnectionPool {
        let connector = Connector(
            tls: try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") },
            group: MultiThreadedEventLoopGroup.singleton, connectTimeout: .seconds(120), keepAlive: keepAlive,
            detours: [try Endpoint(url()): try #require(Endpoint(authority: "127.0.0.1:\(port)"))])
        return ConnectionPool(connector: connector, limit: 1)
    }

    /// Returns the plan of a GET request to this server.
    func plan() throws -> ExchangePlan {
        let url = try url()
        return ExchangePlan(
            head: try RequestHead.make(PinnedRequest(url: url), to: Endpoint(url)), body: .none,
            idleTimeout: .seconds(120), deadline: .now() + .seconds(120), bodyLimit: 1024)
    }
}

extension PinnedSession {
    /// Waits for a state of the connections: a socket closes some time after its request has failed.
    func wait(until isReached: (ConnectionPool.Figures) -> Bool) async throws -> Bool {
        try await eventually { isReached(connectionFigures) }
    }
}

/// Waits for a condition, at most 60 seconds, while the event loops run.
/// - Returns: Whether the condition became true.
func eventually(_ isReached: () throws -> Bool) async throws -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while try !isReached() {
        guard ContinuousClock.now < deadline else { return false }
        try await MultiThreadedEventLoopGroupProbe.round()
    }
    return true
}

extension String {
    init(_ data: Data) { self = String(decoding: data, as: UTF8.self) }
}

/// The host names that test sessions connect to 127.0.0.1.
let testHosts = [
    "www.example.com", "v1.example.com", "v1.api.example.com", "v2.api.example.com", "a.b.api.example.com",
    "other.example.org",
]
