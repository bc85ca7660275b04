// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

/// Asks a tunnel's service for everything that `culvert status` shows.
struct ServiceReportRequest: TunnelMessage {
    typealias Reply = ServiceReport
    static let name = "culvert.service.report"
}

/// The report of a tunnel's service about its tunnel.
struct ServiceReport: Codable, Hashable, Sendable {
    /// A peer as it was configured.
    struct Peer: Codable, Hashable, Sendable {
        var publicKey: String
        var endpoint: String?
        var allowedIPs: [String]
        var persistentKeepalive: UInt16
    }

    var name: String
    var processID: Int32
    var version: String
    /// The file or profile that the tunnel was started from.
    var source: String
    var profile: String?
    /// Seconds since 1970.
    var startedAt: Double
    var status: TunnelStatusUpdate
    /// The provider's own status; `nil` while there is no provider.
    var wireGuard: StatusRequest.Reply?
    /// The status of a login tunnel's provider; `nil` while there is no provider.
    var login: CredentialStatusRequest.Reply?
    /// Whether a gateway assigns its settings. ``enrolment`` is `nil` before it has.
    var isEnrolled = false
    var enrolment: EnrolmentStatusRequest.Reply?
    var publicKey: String?
    var addresses: [String]
    var routes: [String]
    var excludedRoutes: [String]
    var dnsServers: [String]
    var searchDomains: [String]
    var mtu: Int?
    var leakPolicy: LeakPolicy
    var allowsLocalNetwork: Bool
    var allowedNetworks: [String]
    var peers: [Peer]
    var residentBytes: Int
    /// The number of times that the service restored a change by another program, and the text of the last one.
    var repairs = 0
    var lastRepair: String?
    /// The implementation of ChaCha20-Poly1305; `nil` from a service that does not report it.
    var aead: String?
    /// The reason for which `auto` does not use libipsec-mb1, although the library and a suitable processor exist.
    var aeadRejection: String?
    /// The parts of the tunnel's network that are not in effect; `nil` from a service that does not report them.
    var problems: [Problem]?

    /// A part of the tunnel's network that is not in effect.
    struct Problem: Codable, Hashable, Sendable {
        /// The part and the reason, for people.
        var what: String
        /// The time since which the part is not in effect, in seconds since 1970.
        var since: Double
    }
}

extension ServiceReport {
    /// The provider's status; `nil` while there is no provider.
    var provider: ProviderStatus? { wireGuard?.status ?? login?.status }

    /// The configured peers, each with its status; `nil` for a peer that the provider does not have.
    var peerStatus: [(peer: Peer, now: PeerStatus?)] {
        let present = provider?.peers ?? []
        return peers.map { peer in (peer, present.first { $0.publicKey == peer.publicKey }) }
    }

    /// A tunnel's report before it runs.
    init(_ tunnel: LoadedTunnel, publicKey: String?, processID: Int32, startedAt: Double) {
        let settings = tunnel.kind.settings
        let isKnown = tunnel.wireGuard != nil
        self.init(
            name: tunnel.name, processID: processID, version: programVersion, source: tunnel.source,
            profile: tunnel.profile, startedAt: startedAt, status: TunnelStatusUpdate(.disconnected),
            publicKey: publicKey, addresses: settings.addresses.map(\.description),
            routes: isKnown ? settings.effectiveRoutes.map(\.description) : [],
            excludedRoutes: settings.excludedRoutes.map(\.description),
            dnsServers: (settings.dns?.servers ?? []).map(\.description),
            searchDomains: settings.dns?.searchDomains ?? [], mtu: isKnown ? settings.mtu : nil,
            leakPolicy: settings.leakPolicy,
            allowsLocalNetwork: settings.allowsLocalNetwork,
            allowedNetworks: settings.allowedNetworks.map(\.description),
            peers: (tunnel.wireGuard?.peers ?? []).map { peer in
                Peer(
                    publicKey: peer.publicKey.base64, endpoint: peer.endpoint?.description,
                    allowedIPs: peer.allowedIPs.map(\.description), persistentKeepalive: peer.persistentKeepalive ?? 0)
            }, residentBytes: 0)
        if case .enrolled = tunnel.kind { isEnrolled = true }
    }

    /// The report with the status of the running provider; unchanged if the provider does not answer within two seconds.
    func updated<Configuration: TunnelKindConfiguration>(
        _ kind: Configuration.Type, from runner: TunnelRunner<Configuration.Provider>
    ) async -> ServiceReport {
        do throws(TunnelError) {
            return try await runner.withProvider(within: .seconds(2)) { provider in
                await kind.report(provider, in: self)
            }
        } catch {
            return self
        }
    }

    /// Records the status of WireGuard.
    mutating func update(from reply: StatusRequest.Reply) {
        wireGuard = reply
        publicKey = reply.publicKey ?? publicKey
    }

    /// Copies the result of a login from a status reply.
    mutating func update(from reply: CredentialStatusRequest.Reply?) {
        login = reply
        guard let assignment = reply?.assignment else { return }
        addresses = assignment.addresses.map(\.description)
        routes = assignment.routes.map(\.description)
        dnsServers = assignment.dns.map(\.description)
        mtu = assignment.mtu
    }
}
