// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import DemoSupport
import NetworkAddresses
import PacketTunnel
import TunnelIO
import TunnelSystem

/// `culvert demo --login`: a login server in memory and a client's tunnel, over real UDP on the loopback interface.
struct LoginDemo: DemoScene {
    static let (command, script, seconds) = ("demo --login", "", 3)
    static var members: JSON {
        ["mode": "login", "elapsedSeconds": .integer(0), "login": .null, "ping": .null]
    }
    static var scriptMembers: JSON { members }

    private static let (user, password) = ("kean", "correct horse")
    private static let pings = 100

    /// The scene has no bulk transfer.
    init(transfer: Duration) {}

    func show(_ report: DemoReport) async throws {
        report.view.open("A login tunnel and its server in one process, over UDP on 127.0.0.1 (no root)")
        report.view.begin("server")
        let server = try MemoryLoginServer(users: [Self.user: Self.password])
        let host = MemoryHost<CredentialTunnelProvider>()
        let manager = TunnelManager(host)
        let configuration = try server.configuration(login: Self.user)
        let profile = try TunnelProfile(name: "Login demo", provider: "credential", encoding: configuration)
        report.view.finish("one user, '\(Self.user)', at \(configuration.server), key \(configuration.serverKey)")
        do {
            try await steps(server, host, manager, profile, report)
        } catch {
            await host.stop(.userInitiated)
            await server.stop()
            throw error
        }
        await host.stop(.userInitiated)
        await server.stop()
    }

    private func steps(
        _ server: MemoryLoginServer, _ host: MemoryHost<CredentialTunnelProvider>, _ manager: TunnelManager,
        _ profile: TunnelProfile, _ report: DemoReport
    ) async throws {
        try await report.step("wrong password") {
            try await manager.create(profile, secrets: server.secrets(password: "wrong"))
            let refusal = await refusal { () throws(TunnelError) in try await manager.start(profile.id) }
            guard refusal?.code == .authenticationFailed else {
                throw CommandFailure("a wrong password was not refused: \(refusal?.description ?? "the tunnel is up")")
            }
            return "refused, without a hint whether name or password is wrong"
        }
        try await report.step("login") {
            try await manager.update(profile, secrets: server.secrets(password: Self.password).mapValues { $0 })
            let start = ContinuousClock.now
            try await manager.start(profile.id)
            let time = ContinuousClock.now - start
            report["login"] = ["milliseconds": .decimal(time.milliseconds, places: 4)]
            let addresses = host.platform.settings?.addresses.map(\.description) ?? []
            return "\(report.summarize("login", time)) to the server's assignment: \(addresses.joined(separator: ", "))"
        }
        report.view.begin("ping")
        report.add("ping", try await pings(Self.pings, host))
        try await report.step("new password") {
            server.setPassword("battery staple", of: Self.user)
            let end = try await within("the end of the session") {
                for await update in host.statusUpdates() where update.status == .disconnected { return update.error }
                return nil
            }
            guard end?.code == .sessionTerminated else {
                throw CommandFailure("the tunnel ended for another reason: \(end?.description ?? "none is known")")
            }
            try await manager.update(profile, secrets: server.secrets(password: "battery staple").mapValues { $0 })
            try await manager.start(profile.id)
            _ = try await pings(1, host)
            return "ends the tunnel with a reason; with the new one the tunnel is up again"
        }
    }

    private func refusal(of body: () async throws(TunnelError) -> Void) async -> TunnelError? {
        do throws(TunnelError) {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    /// Waits for a result.
    /// - Throws: `CommandFailure` if it takes longer than ten seconds, or the error of `body`.
    private func within<Value: Sendable>(
        _ name: String, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(for: .seconds(10))
                throw CommandFailure("\(name) took longer than 10 s")
            }
            guard let value = try await group.next() else { throw CancellationError() }
            return value
        }
    }

    /// Sends a series of echo requests to the server's address in the tunnel, each after the reply to the one before.
    private func pings(_ count: Int, _ host: MemoryHost<CredentialTunnelProvider>) async throws -> Pings {
        guard let source = host.platform.settings?.addresses.first(where: { !$0.isIPv6 })?.address else {
            throw CommandFailure("the server assigned no IPv4 address")
        }
        let times = try await within("a series of \(count) pings") {
            var times: [Double] = []
            var replies = host.platform.deliveries.makeAsyncIterator()
            for sequence in 0..<count {
                let request = PacketBuilder.icmpEcho(
                    from: source, to: MemoryLoginServer.address, identifier: 1, sequence: UInt16(sequence),
                    payload: Array(repeating: 0x77, count: 56))
                let reply = ICMPResponder().reply(to: request)
                let start = ContinuousClock.now
                guard host.platform.inject(request) else {
                    throw CommandFailure("the tunnel's interface refused a packet")
                }
                while let packet = await replies.next(), packet != reply {}
                try Task.checkCancellation()
                times.append((ContinuousClock.now - start).milliseconds)
            }
            return times
        }
        return Pings(sent: count, roundTrips: times)
    }
}
