// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import Gateway
    import NetworkAddresses
    import PacketTunnel
    import Provisioning
    import TunnelIO
    import TunnelSystem
    import WireGuardCore
    import WireGuardDevice

    /// A whole gateway and a device in this process, over real TLS and UDP on the loopback interface.
    enum GatewayDemo {
        static func run(seconds: Int, style: DemoView.Style, console: Console) -> Int32 {
            SignalledRun.run {
                let view = DemoView(style, console: console)
                let folder: DemoFolder
                do throws(CommandFailure) { folder = try DemoFolder() } catch { return error.tell(console) }
                defer { folder.remove() }
                view.open("A gateway and a device in one process, over TLS and UDP on 127.0.0.1, no root")
                do {
                    let bench = try Bench(folder.path)
                    try await bench.serve { try await steps(bench, seconds, view) }
                    return ExitStatus.success
                } catch {
                    let isInterruption = Task.isCancelled
                    view.fail(isInterruption ? "interrupted" : "\(error)")
                    return isInterruption ? ExitStatus.interrupted : ExitStatus.failure
                }
            }
        }

        private static func steps(_ bench: Bench, _ seconds: Int, _ view: DemoView) async throws {
            var summary = DemoSummary()
            let began = ContinuousClock.now
            view.begin("gateway")
            let service = bench.process.service
            view.finish(
                "\(bench.settings.host): device API on TCP port \(bench.settings.api.port), WireGuard on UDP port \(bench.settings.wireGuardPort)"
            )

            view.begin("invitation")
            let user = try await service.addUser(UserDraft(login: "anna"), .local(getuid())).item
            let issued = try await service.addInvitation(InvitationDraft(userID: user.id), .local(getuid()))
            let invitation = try Invitation(
                host: bench.settings.host, port: bench.settings.api.port, token: issued.secret,
                expires: issued.item.expiresAt, pins: bench.pins, gateway: "demo")
            view.finish("for user 'anna', with two pins; its text has \(invitation.exportedText.utf8.count) characters")

            view.begin("other pins")
            var stranger = invitation
            stranger.pins = (0..<2).compactMap { _ in
                ServerKeyPin(bytes: (0..<32).map { _ in UInt8.random(in: 0...255) })
            }
            try await refused(stranger)
            view.finish("a gateway whose key has none of them is refused before anything is sent")

            view.begin("enrolment")
            let device = DemoDevice(invitation)
            let start = ContinuousClock.now
            let grant = try await device.enrol(invitation)
            let enrolled = ContinuousClock.now - start
            summary.add("enrolment", Figure.milliseconds(enrolled))
            view.finish(
                "over pinned TLS 1.3 in \(Figure.milliseconds(enrolled)): \(grant.addresses.map(\.description).joined(separator: ", "))"
            )

            view.begin("used again")
            do throws(ProvisioningError) {
                _ = try await DemoDevice(invitation).enrol(invitation)
                throw ProvisioningError.refused("nothing: the invitation worked twice")
            } catch {
                guard case .problem(let problem) = error, problem.code == .invitationUsed else { throw error }
                view.finish("the same invitation with another key is refused, and noted in the audit log")
            }
            try tunnel(bench, device, grant, seconds, view, &summary)
            try await addKey(bench, user, view)
            try await revoke(bench, device, grant, view, &summary)
            summary.add("time", Figure.seconds(ContinuousClock.now - began))
            view.show(summary.lines)
        }

        // MARK: - Steps

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

        private static func tunnel(
            _ bench: Bench, _ device: DemoDevice, _ grant: EnrolmentGrant, _ seconds: Int, _ view: DemoView,
            _ summary: inout DemoSummary
        ) throws {
            view.begin("tunnel")
            let host = try DemoHost(name: "device", mtu: grant.mtu)
            let wireGuard = try device.tunnel(grant, host)
            bench.deviceEnd = (host, wireGuard)
            guard let own = grant.addresses.first(where: { !$0.isIPv6 }),
                let inner = bench.settings.addresses.first(where: { !$0.isIPv6 })?.address,
                let first = host.ping(inner, from: own, identifier: 1, sequence: 0, within: .seconds(6))
            else { throw DemoFailure("no session within 6 s; is UDP on 127.0.0.1 blocked by a firewall?") }
            view.finish(
                "\(Figure.milliseconds(first)) from the first packet to its answer: handshake, pre-shared key, ping")
            summary.add("first packet, handshake", Figure.milliseconds(first))

            var lost = 0
            for (name, isIPv6) in [("ping IPv4", false), ("ping IPv6", true)] {
                view.begin(name)
                guard let source = grant.addresses.first(where: { $0.isIPv6 == isIPv6 }),
                    let destination = bench.settings.addresses.first(where: { $0.isIPv6 == isIPv6 })?.address
                else { throw DemoFailure("the device has no address") }
                let times = (0..<UInt16(100)).compactMap { sequence in
                    host.ping(
                        destination, from: source, identifier: isIPv6 ? 3 : 2, sequence: sequence, within: .seconds(1))
                }
                let pings = Pings(sent: 100, roundTrips: times)
                guard pings.answered > 0 else { throw DemoFailure("no ping was answered") }
                lost += pings.lost
                view.finish(pings.text)
            }
            summary.add("pings lost", "\(lost) of 200")

            let duration = Duration.seconds(seconds)
            view.begin("upload")
            let up = host.send(to: bench.host, inner, from: own, for: duration)
            try check(up)
            view.finish(up.text)
            view.begin("download")
            let down = bench.host.send(to: host, own, from: inner, for: duration)
            try check(down)
            view.finish(down.text)
            summary.add("through the tunnel", Figure.bytes(up.bytes + down.bytes) + ", each byte compared")
        }

        private static func check(_ transfer: DemoHost.Transfer) throws(DemoFailure) {
            guard transfer.received > 0 else { throw DemoFailure("nothing arrived") }
            guard transfer.damaged == 0 else {
                throw DemoFailure("\(transfer.damaged) packets arrived with other bytes")
            }
        }

        private static func addKey(_ bench: Bench, _ user: User, _ view: DemoView) async throws {
            view.begin("PIA's addKey")
            let token = try await bench.process.service.addToken(
                TokenDraft(scope: .addKey, userID: user.id, name: "pia"), .local(getuid()))
            var random = SystemRandomNumberGenerator()
            let server = ProvisioningServer(
                name: bench.settings.host, port: bench.settings.addKey.listener.port,
                trust: .authorities(try bench.directory.addKeyCertificate().authority, acceptsCommonName: false))
            let client = AddKeyClient(transport: DemoDevice.transport, logger: DemoDevice.logger)
            let registration = try await client.register(
                PrivateKey(using: &random).publicKey, token: token.secret.bytes, at: [server])
            view.finish(
                "answered as PIA's servers do: peer_ip \(registration.reply.address), under an authority of its own")
        }

        private static func revoke(
            _ bench: Bench, _ device: DemoDevice, _ grant: EnrolmentGrant, _ view: DemoView,
            _ summary: inout DemoSummary
        ) async throws {
            view.begin("revoked")
            guard let (host, wireGuard) = bench.deviceEnd, let own = grant.addresses.first(where: { !$0.isIPv6 }),
                let inner = bench.settings.addresses.first(where: { !$0.isIPv6 })?.address
            else { throw DemoFailure("there is no tunnel") }
            defer { wireGuard.close() }
            guard host.ping(inner, from: own, identifier: 4, sequence: 0, within: .seconds(1)) != nil else {
                throw DemoFailure("the tunnel was down already")
            }
            let start = ContinuousClock.now
            try await bench.process.service.removeDevice(grant.device.id, .local(getuid()))
            var sequence: UInt16 = 1
            while host.ping(inner, from: own, identifier: 4, sequence: sequence, within: .milliseconds(100)) != nil {
                sequence &+= 1
                guard ContinuousClock.now - start < .seconds(5) else {
                    throw DemoFailure("a revoked device is served after 5 s")
                }
            }
            let cut = ContinuousClock.now - start - .milliseconds(100)
            do throws(ProvisioningError) {
                _ = try await device.client.grant(credential: device.credential, publicKey: device.key.publicKey)
                throw ProvisioningError.refused("nothing: the API still knows a revoked device")
            } catch {
                guard case .problem(let problem) = error, problem.code == .deviceUnknown else { throw error }
            }
            let text = Figure.milliseconds(max(cut, .zero))
            summary.add("revoked key cut off after", text)
            view.finish("no packet passes \(text) later, and the API knows the device no more")
        }

        // MARK: - The gateway

        private final class Bench {
            let settings: GatewaySettings
            let directory: GatewayDirectory
            let process: GatewayProcess
            let host: DemoHost
            let pins: [ServerKeyPin]
            var deviceEnd: (DemoHost, WireGuardDevice)?

            init(_ folder: String) throws {
                var settings = GatewaySettings()
                settings.label = "demo"
                settings.host = "127.0.0.1"
                settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
                settings.dns = [try IPAddress("10.66.0.1")]
                settings.socket = folder + "/run/admin.sock"
                // Ports that are free now are free in a moment, unless somebody is very quick.
                settings.api = .init(addresses: [.v4(127, 0, 0, 1)], port: try FreePort.tcp())
                settings.admin = .init(addresses: [.v4(127, 0, 0, 1)], port: try FreePort.tcp())
                settings.addKey.isEnabled = true
                settings.addKey.listener = .init(addresses: [.v4(127, 0, 0, 1)], port: try FreePort.tcp())
                settings.wireGuardPort = try FreePort.udp()
                directory = try GatewayDirectory.make(
                    folder + "/gateway", settings, backupKey: folder + "/backup.key")
                let pins = try directory.pins()
                self.pins = [pins.active, pins.backup]
                host = try DemoHost(name: "gateway", mtu: settings.mtu)
                var options = GatewayProcess.Options(
                    network: MemoryPeerNetwork(host.tun, addresses: settings.addresses), socketUser: geteuid())
                options.version = programVersion
                process = try GatewayProcess(directory, settings: settings, options, logger: DemoDevice.logger)
                self.settings = settings
            }

            /// Does something while the gateway runs.
            func serve(_ body: () async throws -> Void) async throws {
                let ready = OneShot<(any Error)?>()
                let process = process
                let running = Task {
                    do { try await process.run { _ in ready.finish(nil) } } catch {
                        ready.finish(error)
                        throw error
                    }
                }
                if let error = await ready.value { throw error }
                let result: Result<Void, any Error>
                do { result = .success(try await body()) } catch { result = .failure(error) }
                deviceEnd?.1.close()
                running.cancel()
                try await running.value
                try result.get()
            }
        }
    }
#endif
