// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux
import TunnelIO
import TunnelServer
import WireGuardDevice

extension RuntimeFigures {
    /// The metrics of the runtime.
    package var families: [MetricFamily] {
        (servesWireGuard ? wireGuard : []) + common + (login?.families ?? [])
    }

    private var wireGuard: [MetricFamily] {
        [
            MetricFamily("culvert_gateway_peers", .gauge, "Devices that are peers of WireGuard", peers),
            MetricFamily(
                "culvert_gateway_peers_online", .gauge, "Peers with a handshake in the last three minutes", online),
            MetricFamily(
                "culvert_gateway_handshakes_total", .counter, "WireGuard handshakes since the start", handshakes),
            MetricFamily(
                "culvert_gateway_bytes_total", .counter, "Bytes of WireGuard since the start",
                [
                    .init(Double(received), labels: [.init("direction", "received")]),
                    .init(Double(sent), labels: [.init("direction", "sent")]),
                ]),
            MetricFamily(
                "culvert_gateway_drops_total", .counter, "Dropped packets and datagrams, by cause",
                drops.samples),
            MetricFamily(
                "culvert_gateway_queue_depth", .gauge,
                "Queued packets that wait for a session of their peer, and handshake messages to send",
                [
                    .init(Double(waitingPackets), labels: [.init("queue", "packets")]),
                    .init(Double(waitingMessages), labels: [.init("queue", "handshake_messages")]),
                ]),
        ]
    }

    /// The metrics that do not depend on the kinds of tunnels.
    private var common: [MetricFamily] {
        [
            MetricFamily(
                "culvert_gateway_aead_info", .gauge, "1, with the implementation of ChaCha20-Poly1305",
                [.init(1, labels: [.init("aead", TransportAEAD.name)])]),
            MetricFamily(
                "culvert_gateway_repairs_total", .counter, "Network changes by other processes that were undone",
                network.repairs.count),
            MetricFamily(
                "culvert_gateway_forwarding_held", .gauge,
                "1 while forwarding is suspended because firewall rules are missing",
                network.isHeld ? 1 : 0),
            MetricFamily(
                "culvert_gateway_applied_sequence", .gauge, "The number of the last change in effect", sequence),
            MetricFamily(
                "culvert_gateway_current", .gauge, "1 if the whole state of the store is in effect",
                isCurrent ? 1 : 0),
            MetricFamily(
                "culvert_gateway_rounds_total", .counter, "Rounds in which changes were applied since the start",
                [
                    .init(Double(rounds - failedRounds), labels: [.init("outcome", "applied")]),
                    .init(Double(failedRounds), labels: [.init("outcome", "failed")]),
                ]),
            MetricFamily(
                "culvert_gateway_not_in_effect", .gauge,
                "Parts of the gateway that are not in effect, and devices that are excluded",
                notInEffect.map { .init(Double($0.problems.count), labels: [$0.label]) }),
            MetricFamily(
                "culvert_gateway_not_in_effect_since_timestamp_seconds", .gauge,
                "Time since which the first of them has not been in effect, in seconds since 1970; absent if all are",
                notInEffect.compactMap { part in
                    part.problems.map(\.since).min().map { .init($0, labels: [part.label]) }
                }),
        ]
    }

    private var notInEffect: [(label: MetricFamily.Label, problems: [NetworkProblem])] {
        [
            (.init("kind", "part"), readiness.problems), (.init("kind", "device"), readiness.exclusions),
        ]
    }
}

extension DropCounters {
    /// A sample for each cause.
    fileprivate var samples: [MetricFamily.Sample] {
        counters.map { .init(Double($0.count), labels: [.init("cause", $0.cause.replacing(" ", with: "_"))]) }
    }
}

extension LoginFigures {
    fileprivate var families: [MetricFamily] {
        [
            MetricFamily(
                "culvert_gateway_login_sessions", .gauge, "Sessions of the login tunnel", UInt64(clamping: sessions)),
            MetricFamily(
                "culvert_gateway_logins_total", .counter, "Logins to the login tunnel since the start",
                [
                    .init(Double(accepted), labels: [.init("outcome", "accepted")]),
                    .init(Double(refused), labels: [.init("outcome", "refused")]),
                ]),
            MetricFamily(
                "culvert_gateway_login_bytes_total", .counter, "Bytes of the login tunnel since the start",
                [
                    .init(Double(received), labels: [.init("direction", "received")]),
                    .init(Double(sent), labels: [.init("direction", "sent")]),
                ]),
            MetricFamily(
                "culvert_gateway_login_drops_total", .counter,
                "Dropped packets and datagrams of the login tunnel, by cause",
                drops.samples),
        ]
    }
}
