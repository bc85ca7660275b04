// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Provisioning
import WireGuardDevice

/// The status of tunnels as text for people.
struct StatusText {
    var paint: Paint

    /// A table of tunnels.
    func table(_ tunnels: [TunnelSnapshot]) -> [String] {
        var table = TextTable(["NAME", "STATE", "ENDPOINT", "HANDSHAKE", "RECEIVED", "SENT"])
        for tunnel in tunnels {
            table.add([
                tunnel.name, tunnel.state, tunnel.endpoint ?? "-", Self.age(tunnel.handshakeAge),
                tunnel.receivedBytes.map { Figure.bytes($0) } ?? "-", tunnel.sentBytes.map { Figure.bytes($0) } ?? "-",
            ])
        }
        return table.lines
    }

    /// The full status of a tunnel.
    func detail(_ tunnel: TunnelSnapshot) -> [String] {
        var lines = [paint(tunnel.name, .bold) + ": " + stateText(tunnel)]
        func add(_ key: String, _ value: String?) {
            if let value, !value.isEmpty { lines.append("  \((key + ":").padded(to: 15))\(value)") }
        }
        guard let report = tunnel.report else {
            add("problem", tunnel.problem)
            if let held = tunnel.heldPolicy {
                add(
                    "leak policy",
                    "\(LeakPolicyName(held).rawValue), without the tunnel"
                        + (tunnel.isGuardGone
                            ? "; but another program has deleted its firewall: no traffic is blocked" : ""))
            }
            if tunnel.problem == nil {
                add(
                    "fix",
                    tunnel.isGuardGone
                        ? "culvert guard \(tunnel.name) loads it again"
                        : tunnel.heldPolicy == nil
                            ? "culvert down \(tunnel.name) undoes its changes"
                            : "culvert up \(tunnel.name); or culvert down \(tunnel.name), and culvert guard \(tunnel.name) --release"
                )
            }
            return lines
        }
        if let error = report.status.error {
            add("error", error.message)
            add("fix", error.fix)
        }
        let provider = report.provider
        if report.status.status == .reasserting, provider?.isTrying == true {
            add(
                "meanwhile",
                "traffic that is routed into the tunnel is dropped; the tunnel continues to try to reach its server")
        }
        for problem in report.problems ?? [] {
            add("not in effect", "\(problem.what), for \(Self.age(tunnel.time - problem.since, ago: false))")
        }
        add("source", report.source)
        add("process", "\(report.processID), for \(Self.age(tunnel.time - report.startedAt, ago: false))")
        add("memory", Figure.bytes(report.residentBytes))
        add("encryption", report.aead.map { TransportAEAD.summary($0, report.aeadRejection) })
        add("public key", report.publicKey)
        add("listening on", provider?.listenPort.map { "UDP port \($0)" })
        add("addresses", report.addresses.joined(separator: ", "))
        add("routes", report.routes.joined(separator: ", "))
        add("not routed", report.excludedRoutes.joined(separator: ", "))
        add("name servers", (report.dnsServers + report.searchDomains).joined(separator: ", "))
        add("leak policy", LeakPolicyName(report.leakPolicy).rawValue)
        add("let through", report.allowedNetworks.joined(separator: ", "))
        if report.repairs > 0 {
            add("made again", Figure.grouped(UInt64(report.repairs)) + " times, last: \(report.lastRepair ?? "")")
        }
        add("received", Self.amount(tunnel.receivedBytes, tunnel.rates?.received))
        add("sent", Self.amount(tunnel.sentBytes, tunnel.rates?.sent))
        if let login = provider?.login {
            add("login", login)
            add("server", provider?.endpoint)
            add("keys", Self.age(provider?.handshakeAge))
        }
        if let enrolment = report.enrolment {
            add("device", "\(enrolment.deviceID) of \(enrolment.user)")
            add("expires", enrolment.expiresInSeconds.map { "in \(Self.age($0, ago: false)), unless it renews" })
        }
        let drops = (provider?.drops ?? [:]).sorted { $0.key < $1.key }
        add("dropped", drops.map { "\($0.key) \(Figure.grouped($0.value))" }.joined(separator: ", "))
        for (peer, now) in report.peerStatus {
            lines += ["", "  peer " + paint(peer.publicKey, .bold)]
            add("endpoint", now?.endpoint ?? peer.endpoint ?? "not known yet")
            add("handshake", Self.age(now?.lastHandshakeAge))
            add("received", Self.amount(now?.receivedBytes, nil))
            add("sent", Self.amount(now?.sentBytes, nil))
            add("allowed IPs", peer.allowedIPs.joined(separator: ", "))
            add("keepalive", peer.persistentKeepalive > 0 ? "every \(peer.persistentKeepalive) s" : nil)
        }
        return lines
    }

    /// The state, and the provider's activity if it differs from the state.
    func stateText(_ tunnel: TunnelSnapshot, width: Int = 80) -> String {
        let activity = tunnel.provider?.activity
        let more = activity == nil || activity == tunnel.state ? "" : " (\(activity ?? ""))"
        let state = String(tunnel.state.prefix(width))
        return paint.state(tunnel.state, state) + more.prefix(width - state.count)
    }

    /// A time in the past.
    static func age(_ seconds: Double?, ago: Bool = true) -> String {
        guard let seconds, seconds.isFinite, seconds < 1e12 else { return "never" }
        let whole = Int(max(seconds, 0))
        let text =
            switch whole {
            case ..<60: "\(whole) s"
            case ..<3600: "\(whole / 60) min \(whole % 60) s"
            case ..<86_400: "\(whole / 3600) h \(whole / 60 % 60) min"
            default: "\(whole / 86_400) d \(whole / 3600 % 24) h"
            }
        return ago ? text + " ago" : text
    }

    private static func amount(_ bytes: UInt64?, _ rate: Double?) -> String? {
        guard let bytes else { return nil }
        return Figure.bytes(bytes) + (rate.map { ", \(self.rate($0))" } ?? "")
    }

    /// Bits per second in a unit that fits.
    static func rate(_ bitsPerSecond: Double) -> String {
        var value = bitsPerSecond
        for unit in ["bit/s", "kbit/s", "Mbit/s"] {
            if value < 1000 { return Figure.decimal(value, places: unit == "bit/s" ? 0 : 1) + " " + unit }
            value /= 1000
        }
        return Figure.decimal(value, places: 2) + " Gbit/s"
    }
}
