// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Provisioning
import TunnelSystem

/// The state of a tunnel at one moment.
struct TunnelSnapshot: Sendable {
    var name: String
    /// The service's report; `nil` if the service does not answer.
    var report: ServiceReport?
    /// The reason that the service does not answer; `nil` if it answers, or if no process serves the tunnel.
    var problem: String?
    /// Bits per second in both directions; `nil` if there is only one snapshot.
    var rates: Rates?
    /// The time of the snapshot: seconds since 1970.
    var time = Double(ProcessEnvironment.wallClock()) / 1e9

    /// Bits per second.
    struct Rates: Equatable, Sendable {
        var received: Double
        var sent: Double
    }

    /// The policy that is held even if the tunnel does not run; `nil` if there is none.
    var heldPolicy: LeakPolicy?
    /// Whether its firewall is missing, and no process runs that would restore it.
    var isGuardGone = false

    /// Records the policy that is held without the tunnel's process.
    mutating func setHeldPolicy(_ held: LeakPolicy?) {
        heldPolicy = held
        isGuardGone = held != nil && report == nil && TunnelGuard.isLoaded(name) == false
    }

    /// The tunnel's state as a word.
    var state: String {
        guard let report else {
            return problem != nil ? "unknown" : heldPolicy != nil && !isGuardGone ? "held" : "dead"
        }
        return report.status.status.rawValue
    }

    /// The provider's status; `nil` while there is no provider.
    var provider: ProviderStatus? { report?.provider }

    var receivedBytes: UInt64? { provider?.receivedBytes }
    var sentBytes: UInt64? { provider?.sentBytes }

    /// Seconds since the latest handshake.
    var handshakeAge: Double? { provider?.handshakeAge }

    /// The endpoint in use; before one is known, the first that is configured.
    var endpoint: String? { provider?.endpoint ?? report?.peers.compactMap(\.endpoint).first }

    /// Bits per second between an earlier snapshot and this one; `nil` if they cannot be computed.
    func rates(since earlier: TunnelSnapshot, over duration: Duration) -> Rates? {
        let seconds = duration / .seconds(1)
        guard seconds > 0.001, let received = receivedBytes, let sent = sentBytes,
            let receivedBefore = earlier.receivedBytes, let sentBefore = earlier.sentBytes,
            received >= receivedBefore, sent >= sentBefore
        else { return nil }
        return Rates(
            received: Double(received - receivedBefore) * 8 / seconds, sent: Double(sent - sentBefore) * 8 / seconds)
    }

    /// Asks a tunnel's service, and waits at most `patience` for the answer.
    static func query(_ name: String, _ runtime: RuntimeDirectory, _ patience: Duration) async -> TunnelSnapshot {
        var snapshot = await query(name, UnixTunnelChannel(path: runtime.socket(name)), patience)
        snapshot.setHeldPolicy(runtime.heldPolicy(name))
        return snapshot
    }

    /// Asks the service at the other end of a channel.
    static func query(_ name: String, _ channel: UnixTunnelChannel, _ patience: Duration) async -> TunnelSnapshot {
        do throws(MessageError) {
            let report = try await channel.messages.send(ServiceReportRequest(), timeout: patience)
            return TunnelSnapshot(name: name, report: report)
        } catch {
            switch error {
            case .closed: return TunnelSnapshot(name: name)
            case .notPermitted(let reason): return TunnelSnapshot(name: name, problem: reason)
            default: return TunnelSnapshot(name: name, problem: "its process does not answer: \(error)")
            }
        }
    }
}

extension TunnelSnapshot {
    /// The snapshot as JSON, whose members docs/culvert.md lists.
    var json: JSON {
        func number(_ value: Double?) -> JSON { value.map { .decimal($0, places: 3) } ?? .null }
        func strings(_ values: [String]?) -> JSON { .array((values ?? []).map { .string($0) }) }
        func count(_ value: UInt64?) -> JSON { value.map { .integer($0) } ?? .null }
        func string(_ value: String?) -> JSON { value.map { .string($0) } ?? .null }
        let provider = provider
        let error = report?.status.error
        return [
            "name": .string(name), "state": .string(state),
            "activity": string(provider?.activity),
            "error": error.map {
                [
                    "code": .string($0.code.rawValue), "message": .string($0.message), "fix": .string($0.fix),
                ]
            } ?? problem.map { ["code": "channelFailed", "message": .string($0), "fix": ""] } ?? .null,
            "processID": report.map { .integer($0.processID) } ?? .null,
            "source": report.map { .string($0.source) } ?? .null,
            "profile": report?.profile.map { .string($0) } ?? .null,
            "startedAt": number(report?.startedAt),
            "publicKey": report?.publicKey.map { .string($0) } ?? .null,
            "listenPort": provider?.listenPort.map { .integer($0) } ?? .null,
            "endpoint": string(endpoint), "login": string(provider?.login),
            "addresses": strings(report?.addresses), "routes": strings(report?.routes),
            "excludedRoutes": strings(report?.excludedRoutes), "dnsServers": strings(report?.dnsServers),
            "searchDomains": strings(report?.searchDomains),
            "leakPolicy": report.map { .string(LeakPolicyName($0.leakPolicy).rawValue) } ?? .null,
            "allowsLocalNetwork": report.map { .bool($0.allowsLocalNetwork) } ?? .null,
            "allowedNetworks": strings(report?.allowedNetworks),
            "heldPolicy": heldPolicy.map { .string(LeakPolicyName($0).rawValue) } ?? .null,
            "repairs": report.map { .integer($0.repairs) } ?? .null,
            "lastRepair": report?.lastRepair.map { .string($0) } ?? .null,
            "problems": .array(
                (report?.problems ?? []).map {
                    ["what": .string($0.what), "since": .decimal($0.since, places: 3)]
                }),
            "memoryBytes": report.map { .integer($0.residentBytes) } ?? .null,
            "aead": string(report?.aead), "aeadRejection": string(report?.aeadRejection),
            "receivedBytes": count(receivedBytes), "sentBytes": count(sentBytes),
            "receivedBitsPerSecond": number(rates?.received), "sentBitsPerSecond": number(rates?.sent),
            "lastHandshakeSeconds": number(handshakeAge),
            "drops": .object((provider?.drops ?? [:]).mapValues { .integer($0) }),
            "peers": .array(peers),
            "device": device,
        ]
    }

    /// The gateway's data about this device; null for tunnels without a gateway.
    private var device: JSON {
        guard let enrolment = report?.enrolment else { return .null }
        return [
            "id": .string(enrolment.deviceID.description), "name": .string(enrolment.deviceName),
            "user": .string(enrolment.user),
            "expiresInSeconds": enrolment.expiresInSeconds.map { .decimal($0, places: 0) } ?? .null,
            "givenSecondsAgo": .decimal(enrolment.givenSecondsAgo, places: 0),
        ]
    }

    private var peers: [JSON] {
        (report?.peerStatus ?? []).map { peer, now in
            [
                "publicKey": .string(peer.publicKey),
                "endpoint": (now?.endpoint ?? peer.endpoint).map { .string($0) } ?? .null,
                "allowedIPs": .array(peer.allowedIPs.map { .string($0) }),
                "persistentKeepalive": .integer(peer.persistentKeepalive),
                "lastHandshakeSeconds": now?.lastHandshakeAge.map { .decimal($0, places: 3) } ?? .null,
                "receivedBytes": now.map { .integer($0.receivedBytes) } ?? .null,
                "sentBytes": now.map { .integer($0.sentBytes) } ?? .null,
            ]
        }
    }

    /// One line of `status --watch --json`.
    var watchJSON: JSON {
        func number(_ value: Double?) -> JSON { value.map { .decimal($0, places: 3) } ?? .null }
        return [
            "time": number(time), "name": .string(name), "state": .string(state),
            "activity": provider.map { .string($0.activity) } ?? .null,
            "endpoint": endpoint.map { .string($0) } ?? .null, "lastHandshakeSeconds": number(handshakeAge),
            "receivedBytes": receivedBytes.map { .integer($0) } ?? .null,
            "sentBytes": sentBytes.map { .integer($0) } ?? .null,
            "receivedBitsPerSecond": number(rates?.received), "sentBitsPerSecond": number(rates?.sent),
        ]
    }
}
