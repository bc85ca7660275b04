// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import NetworkAddresses
import PacketTunnel

/// Passes the requests of the login tunnel's server to the runtime.
final class LoginGate: CredentialStore {
    private weak let runtime: GatewayRuntime?
    private let service: any PeerSource

    init(_ runtime: GatewayRuntime, _ service: any PeerSource) { (self.runtime, self.service) = (runtime, service) }

    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        await runtime?.verdict(on: attempt) ?? .refused(Body.Refusal(.unavailable))
    }

    func isKnown(_ login: String, from source: IPAddress) -> Bool {
        service.isKnownLogin(login, from: source)
    }

    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) async {
        await runtime?.ended(session, reason, moved)
    }
}

extension LoginJudgement.Refusal {
    /// The refusal that the client receives.
    var body: Body.Refusal {
        switch self {
        case .wrong: Body.Refusal(.credentials)
        case .tooEarly(let seconds):
            Body.Refusal(.attempts, message: "too many attempts: try again in \(seconds) s")
        case .disabled: Body.Refusal(.credentials, message: "the user is disabled: ask the gateway's administrator")
        case .expired: Body.Refusal(.credentials, message: "the user has expired: ask the gateway's administrator")
        case .changed: Body.Refusal(.unavailable, message: "the user was changed just now: try again")
        case .full(let reason): Body.Refusal(.full, message: String(reason.prefix(150)))
        }
    }
}

extension GatewaySettings {
    /// The settings that a client of the login tunnel receives.
    /// - Parameter families: The address families that the gateway has configured: `true` for IPv6, `false` for IPv4.
    func assignment(_ addresses: [IPAddress], families: Set<Bool>) -> Body.Assignment {
        let own = addresses.filter { families.contains($0.isIPv6) }
        // Routes and name servers of a family are of no use without an address of the family.
        func fits(_ isIPv6: Bool) -> Bool { own.contains { $0.isIPv6 == isIPv6 } }
        return Body.Assignment(
            addresses: own.map { InterfaceAddress(host: $0) }, routes: routes.filter { fits($0.isIPv6) },
            dns: dns.filter { fits($0.isIPv6) }, mtu: mtu, keepalive: Int(keepaliveSeconds))
    }
}
