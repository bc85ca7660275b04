// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import FoundationEssentials
    import NIOHTTP1
    import NetworkAddresses
    import Provisioning
    import TrustPinning
    import TrustPinningNIO
    import TunnelIO
    import WireGuardCore
    import WireGuardDevice

    /// One device: asks the gateway over pinned TLS, and has a WireGuard of its own.
    struct DemoDevice {
        let key: PrivateKey
        let credential: BearerSecret

        init() {
            var random = SystemRandomNumberGenerator()
            key = PrivateKey(using: &random)
            credential = BearerSecret(.device, using: &random)
        }

        // MARK: - The API

        /// A session that talks to a server with one of these keys, and to nobody else.
        static func session(pins: [ServerKeyPin], host: String) throws(DemoFailure) -> PinnedSession {
            do {
                let pins = try pins.enumerated().map { index, pin in
                    try Pin(.spki, PinHash(bytes: pin.bytes), role: index == 0 ? .primary : .backup, scope: .leaf)
                }
                let policy = try PinningPolicy(pins: pins, requiresSystemTrust: false)
                let policies = try PolicySet([HostPolicy(HostPattern(host), policy)], unlisted: .refuse)
                return PinnedSession(
                    tls: try PinnedTLS(trust: TrustEvaluator(policies: policies, systemTrust: Nobody())))
            } catch {
                throw DemoFailure("no session: \(error)")
            }
        }

        /// A session that trusts one authority.
        static func session(authority pem: String) throws(DemoFailure) -> PinnedSession {
            do {
                let roots = try RootStore.certificates(pem: pem)
                return PinnedSession(
                    tls: try PinnedTLS(
                        trust: TrustEvaluator(policies: .systemTrustOnly, systemTrust: RootStoreTrust(roots: roots))))
            } catch {
                throw DemoFailure("no session: \(error)")
            }
        }

        private struct Nobody: SystemTrust {
            func verify(_: SystemTrustRequest) async -> SystemTrustResult {
                .untrusted(SystemTrustFailure(.unknownIssuer, "no authority is asked"))
            }
        }

        static func ask(
            _ session: PinnedSession, _ method: String, _ url: String, bearer: BearerSecret? = nil, body: [UInt8]? = nil
        ) async throws -> (status: Int, body: [UInt8]) {
            guard let url = URL(string: url) else { throw DemoFailure("\(url) is no URL") }
            var request = PinnedRequest(url: url, method: HTTPMethod(rawValue: method))
            if let bearer { request.headers.add(name: "Authorization", value: "Bearer \(bearer.exportedText)") }
            if let body {
                request.headers.add(name: "Content-Type", value: "application/json")
                request.body = .bytes(body)
            }
            let (data, response) = try await session.data(for: request)
            return (response.statusCode, Array(data))
        }

        /// Becomes a device by an invitation.
        func enrol(_ invitation: Invitation) async throws -> EnrolmentGrant {
            let session = try Self.session(pins: invitation.pins, host: invitation.host)
            defer { session.finish() }
            let request = EnrolmentRequest(
                publicKey: key.publicKey, credential: credential, name: "demo", platform: "linux")
            let reply = try await Self.ask(
                session, "POST", "https://\(invitation.host):\(invitation.port)\(EnrolmentPath.enrolments)",
                bearer: invitation.token, body: request.body)
            guard reply.status == 201 else {
                throw DemoFailure("the gateway answers with status \(reply.status)")
            }
            return try EnrolmentGrant(body: reply.body)
        }

        // MARK: - The tunnel

        /// A running WireGuard as a grant says, on an interface in memory.
        func tunnel(_ grant: EnrolmentGrant, _ host: DemoHost) throws(DemoFailure) -> WireGuardDevice {
            guard let server = grant.servers.first, let place = server.endpoints.first,
                let address = try? IPAddress(place.host)
            else { throw DemoFailure("the grant names no server by its address") }
            do throws(WireGuardDeviceError) {
                let device = try WireGuardDevice(tun: host.tun, network: SystemDatagramNetwork())
                try device.start()
                var peer = UAPIPeerUpdate(publicKey: server.publicKey)
                peer.presharedKey = grant.presharedKey.map { .set($0) } ?? .clear
                peer.endpoint = Endpoint(address: address, port: place.port)
                peer.replaceAllowedIPs = true
                peer.allowedIPs = grant.routes.map { .add($0) }
                var update = UAPIDeviceUpdate()
                update.privateKey = .set(key)
                update.peers = [peer]
                try device.apply(update)
                return device
            } catch {
                throw DemoFailure("\(error)")
            }
        }
    }
#endif
