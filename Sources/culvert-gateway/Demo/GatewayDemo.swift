// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import DemoSupport
import Gateway
import NetworkAddresses
import PinnedProvisioning
import Provisioning
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// `culvert gateway demo`.
struct GatewayDemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Run a gateway and a device on this machine, and show what happens.",
        discussion: """
            Without --tun it needs no privileges: the gateway has a temporary folder, real TLS and real UDP on a loopback \
            address, and interfaces in memory. Shown are an invitation, a gateway with other pins that is refused, \
            an enrolment over pinned TLS, pings and a bulk transfer each way through the tunnel. PIA's addKey follows, \
            and a revoked device that is cut off.

            With --tun (root) a gateway, a device and a server run in three network namespaces, with the programs that people use: \
            'culvert gateway run', 'culvert enroll', 'culvert up', ping and, where it is installed, iperf3. Shown are real \
            interfaces, NAT to a server that knows no way back, rules of the firewall, and a revoked device. Everything that is made \
            is removed, after Ctrl-C too.

            Examples:
              culvert gateway demo
              sudo culvert gateway demo --tun

            Exit status: 0, 1, 2, 130; see culvert-gateway(8).
            """)

    @OptionGroup var options: DemoOptions<GatewayDemo>

    func run() throws { try finish(options.run()) }
}

/// A whole gateway and a device in this process, over real TLS and UDP on the loopback interface.
struct GatewayDemo: DemoScene {
    static let (command, script, seconds) = ("gateway demo", "gateway", 2)
    static let (members, scriptMembers): (JSON, JSON) = ([:], [:])

    /// The time of each of the two bulk transfers.
    let transfer: Duration

    func show(_ report: DemoReport) async throws {
        report.view.open("A gateway and a device in one process, over TLS and UDP on the loopback interface, no root")
        report.view.begin("gateway")
        let folder = try DemoFolder()
        defer { folder.remove() }
        let gateway = try DemoGateway(folder.path)
        // Run the gateway as a part of the steps, because a failure of the steps may be that of the gateway.
        try await report.steps { try await gateway.serve { try await steps(gateway, report) } }
    }

    private func steps(_ gateway: DemoGateway, _ report: DemoReport) async throws {
        let (settings, service, view) = (gateway.settings, gateway.process.service, report.view)
        let administrator = Caller.local(getuid())
        view.finish(
            "\(settings.host): device API on TCP port \(settings.api.port), "
                + "WireGuard on UDP port \(settings.wireGuardPort)")

        view.begin("invitation")
        let user = try await service.addUser(UserDraft(login: "anna"), administrator).item
        let issued = try await service.addInvitation(InvitationDraft(userID: user.id), administrator)
        let pins = try gateway.directory.pins()
        let invitation = try Invitation(
            host: settings.host, port: settings.api.port, token: issued.secret, expires: issued.item.expiresAt,
            pins: [pins.active, pins.backup], gateway: "demo")
        view.finish("for user 'anna', with two pins; its text has \(invitation.exportedText.utf8.count) characters")

        let transport = PinnedProvisioningTransport(logger: DemoGateway.logger)
        let client = EnrolmentClient(
            servers: EnrolledTunnelConfiguration(invitation).gateways, transport: transport, deadline: .seconds(10),
            logger: DemoGateway.logger)
        try await report.step("other pins") {
            for var server in client.servers {
                server.trust = .pins((1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) })
                do {
                    _ = try await transport.send(ProvisioningRequest(server: server, target: EnrolmentPath.device))
                    throw CommandFailure("a gateway with other keys than the invitation's was believed")
                } catch ProvisioningTransportError.untrusted {}
            }
            return "a gateway whose key matches none of the pins is refused before anything is sent"
        }

        // Enrol a device as an app does: over pinned TLS, with a separate WireGuard tunnel.
        var random = SystemRandomNumberGenerator()
        let (key, credential) = (PrivateKey(using: &random), BearerSecret(.device, using: &random))
        func enrol(_ key: PrivateKey, _ credential: BearerSecret) async throws -> EnrolmentGrant {
            try await client.enrol(
                EnrolmentRequest(publicKey: key.publicKey, credential: credential, name: "demo", platform: "linux"),
                with: invitation.token)
        }
        view.begin("enrolment")
        let start = ContinuousClock.now
        let grant = try await enrol(key, credential)
        let time = report.summarize("enrolment", ContinuousClock.now - start)
        view.finish("over pinned TLS 1.3 in \(time): \(grant.addresses.map(\.description).joined(separator: ", "))")

        try await report.step("used again") {
            let (key, credential) = (PrivateKey(using: &random), BearerSecret(.device, using: &random))
            try await expect(.invitationUsed, "the invitation worked twice") { try await enrol(key, credential) }
            return "the same invitation with another key is refused, and noted in the audit log"
        }

        view.begin("tunnel")
        let host = try DemoHost(name: "device", addresses: grant.addresses, mtu: grant.mtu)
        let device = try host.startDevice()
        defer { device.close() }
        try device.apply(try ExportedConfiguration(grant, key).configuration.deviceUpdate())
        let first = report.summarize("first packet, handshake", try host.firstPing(gateway.host))
        view.finish("\(first) from the first packet to its answer: handshake, pre-shared key, ping")
        try host.showPings(100, to: gateway.host, report)
        let bytes = try host.showTransfers(with: gateway.host, for: transfer, report)
        report.summarize("through the tunnel", Figure.bytes(bytes) + ", each byte compared")

        try await report.step("PIA's addKey") {
            let draft = TokenDraft(scope: .addKey, userID: user.id, name: "pia")
            let token = try await service.addToken(draft, administrator)
            let authority = try gateway.directory.addKeyCertificate().authority
            let server = ProvisioningServer(
                name: settings.host, port: settings.addKey.listener.port,
                trust: .authorities(authority, acceptsCommonName: false))
            let registration = try await AddKeyClient(transport: transport, logger: DemoGateway.logger).register(
                PrivateKey(using: &random).publicKey, token: token.secret.bytes, at: [server])
            return "answered as PIA's servers do: peer_ip \(registration.reply.address), under its own authority"
        }

        try await report.step("revoked") {
            guard try host.ping(gateway.host, within: .seconds(1)) != nil else {
                throw CommandFailure("the tunnel was down already")
            }
            let (start, limit) = (ContinuousClock.now, Duration.milliseconds(100))
            try await service.removeDevice(grant.device.id, administrator)
            while try host.ping(gateway.host, within: limit) != nil {
                guard ContinuousClock.now - start < .seconds(5) else {
                    throw CommandFailure("a revoked device is served after 5 s")
                }
                await Task.yield()
            }
            let cut = report.summarize("revoked key cut off after", max(ContinuousClock.now - start - limit, .zero))
            try await expect(.deviceUnknown, "the API still knows a revoked device") {
                try await client.grant(credential: credential, publicKey: key.publicKey)
            }
            return "no packet passes \(cut) later, and the API knows the device no more"
        }
    }

    /// Checks that the gateway refuses a request.
    private func expect(
        _ code: ProblemDetails.Code, _ otherwise: String, _ request: () async throws -> EnrolmentGrant
    ) async throws {
        do { _ = try await request() } catch ProvisioningError.problem(let problem) where problem.code == code {
            return
        }
        throw CommandFailure(otherwise)
    }
}
