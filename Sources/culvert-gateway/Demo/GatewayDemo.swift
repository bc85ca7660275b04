// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import DemoSupport
import Gateway
import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// A whole gateway and a device in this process, over real TLS and UDP on the loopback interface.
struct GatewayDemo {
    private let gateway: DemoGateway
    private let view: DemoView
    private let seconds: Int
    private var report = DemoReport()

    private var service: GatewayService { gateway.process.service }
    private var administrator: Caller { .local(getuid()) }

    static func run(seconds: Int, style: DemoView.Style, console: Console) -> Int32 {
        SignalledRun.run {
            let view = DemoView(style, console: console)
            let folder: DemoFolder
            do throws(CommandFailure) { folder = try DemoFolder() } catch { return error.tell(console) }
            defer { folder.remove() }
            view.open("A gateway and a device in one process, over TLS and UDP on 127.0.0.1, no root")
            do {
                let gateway = try DemoGateway(folder.path)
                try await gateway.serve {
                    var demo = GatewayDemo(gateway: gateway, view: view, seconds: seconds)
                    try await demo.steps()
                }
                return ExitStatus.success
            } catch {
                let isInterruption = Task.isCancelled
                view.fail(isInterruption ? "interrupted" : "\(error)")
                return isInterruption ? ExitStatus.interrupted : ExitStatus.failure
            }
        }
    }

    private mutating func steps() async throws {
        let settings = gateway.settings
        view.begin("gateway")
        view.finish(
            "\(settings.host): device API on TCP port \(settings.api.port), WireGuard on UDP port \(settings.wireGuardPort)"
        )

        view.begin("invitation")
        let user = try await service.addUser(UserDraft(login: "anna"), administrator).item
        let issued = try await service.addInvitation(InvitationDraft(userID: user.id), administrator)
        let invitation = try Invitation(
            host: settings.host, port: settings.api.port, token: issued.secret, expires: issued.item.expiresAt,
            pins: gateway.pins, gateway: "demo")
        view.finish("for user 'anna', with two pins; its text has \(invitation.exportedText.utf8.count) characters")

        try await view.step("other pins") { () async throws in
            var stranger = invitation
            stranger.pins = (0..<2).compactMap { _ in
                ServerKeyPin(bytes: (0..<32).map { _ in UInt8.random(in: 0...255) })
            }
            try await Self.refused(stranger)
            return "a gateway whose key has none of them is refused before anything is sent"
        }

        view.begin("enrolment")
        let (device, start) = (DemoDevice(invitation), ContinuousClock.now)
        let grant = try await device.enrol(invitation)
        let time = Figure.milliseconds(ContinuousClock.now - start)
        report.summarize("enrolment", time)
        view.finish("over pinned TLS 1.3 in \(time): \(grant.addresses.map(\.description).joined(separator: ", "))")

        try await view.step("used again") {
            try await Self.expect(.invitationUsed, "the invitation worked twice") { () throws(ProvisioningError) in
                _ = try await DemoDevice(invitation).enrol(invitation)
            }
            return "the same invitation with another key is refused, and noted in the audit log"
        }

        view.begin("tunnel")
        let host = try DemoHost(name: "device", addresses: grant.addresses, mtu: grant.mtu)
        let wireGuard = try device.tunnel(grant, host)
        defer { wireGuard.close() }
        let first = Figure.milliseconds(try host.firstPacket(to: gateway.host, identifier: 1).answer)
        report.summarize("first packet, handshake", first)
        view.finish("\(first) from the first packet to its answer: handshake, pre-shared key, ping")
        try host.showPings(100, to: gateway.host, view, &report)
        let bytes = try host.showTransfers(
            with: gateway.host, mtu: grant.mtu, for: .seconds(seconds), view, &report)
        report.summarize("through the tunnel", Figure.bytes(bytes) + ", each byte compared")

        try await view.step("PIA's addKey") { try await addKey(user) }
        view.begin("revoked")
        let cut = Figure.milliseconds(try await revoke(device, grant, host))
        report.summarize("revoked key cut off after", cut)
        view.finish("no packet passes \(cut) later, and the API knows the device no more")
        report.close()
        view.show(report.summary)
    }

    // MARK: - Parts of steps

    /// A server with other keys than an invitation's is not asked anything.
    private static func refused(_ stranger: Invitation) async throws {
        for server in DemoDevice.servers(stranger) {
            do throws(ProvisioningTransportError) {
                _ = try await DemoDevice.transport.send(
                    ProvisioningRequest(server: server, target: EnrolmentPath.device))
            } catch {
                guard case .untrusted = error else { throw error }
                continue
            }
            throw DemoFailure("a gateway with other keys than the invitation's was believed")
        }
    }

    /// Checks that the gateway refuses a request.
    private static func expect(
        _ code: ProblemDetails.Code, _ otherwise: String, _ request: () async throws(ProvisioningError) -> Void
    ) async throws {
        do throws(ProvisioningError) { try await request() } catch {
            guard case .problem(let problem) = error, problem.code == code else { throw error }
            return
        }
        throw DemoFailure(otherwise)
    }

    private func addKey(_ user: User) async throws -> String {
        let token = try await service.addToken(
            TokenDraft(scope: .addKey, userID: user.id, name: "pia"), administrator)
        var random = SystemRandomNumberGenerator()
        let server = ProvisioningServer(
            name: gateway.settings.host, port: gateway.settings.addKey.listener.port,
            trust: .authorities(try gateway.directory.addKeyCertificate().authority, acceptsCommonName: false))
        let client = AddKeyClient(transport: DemoDevice.transport, logger: DemoGateway.logger)
        let registration = try await client.register(
            PrivateKey(using: &random).publicKey, token: token.secret.bytes, at: [server])
        return "answered as PIA's servers do: peer_ip \(registration.reply.address), under an authority of its own"
    }

    /// - Returns: The time until the last packet passed.
    private func revoke(_ device: DemoDevice, _ grant: EnrolmentGrant, _ host: DemoHost) async throws -> Duration {
        guard try host.ping(gateway.host, identifier: 4, within: .seconds(1)) != nil else {
            throw DemoFailure("the tunnel was down already")
        }
        let (start, limit) = (ContinuousClock.now, Duration.milliseconds(100))
        try await service.removeDevice(grant.device.id, administrator)
        var sequence: UInt16 = 1
        while try host.ping(gateway.host, identifier: 4, sequence: sequence, within: limit) != nil {
            sequence &+= 1
            guard ContinuousClock.now - start < .seconds(5) else {
                throw DemoFailure("a revoked device is served after 5 s")
            }
        }
        let cut = max(ContinuousClock.now - start - limit, .zero)
        try await Self.expect(.deviceUnknown, "the API still knows a revoked device") { () throws(ProvisioningError) in
            _ = try await device.client.grant(credential: device.credential, publicKey: device.key.publicKey)
        }
        return cut
    }
}
