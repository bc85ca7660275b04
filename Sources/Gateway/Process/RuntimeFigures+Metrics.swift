// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardDevice

extension RuntimeFigures {
    /// The runtime's part of the metrics.
    package var families: [MetricFamily] {
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
                "culvert_gateway_drops_total", .counter, "Packets and datagrams that were not passed on, by cause",
                drops.causes.map { .init(Double($0.count), labels: [.init("cause", $0.name)]) }),
            MetricFamily(
                "culvert_gateway_repairs_total", .counter, "What others had undone and was made again", network.repairs),
            MetricFamily(
                "culvert_gateway_forwarding_held", .gauge, "Whether nothing is forwarded, since rules are gone",
                network.isHeld ? 1 : 0),
            MetricFamily(
                "culvert_gateway_applied_sequence", .gauge, "The last change that is in force", sequence),
            MetricFamily(
                "culvert_gateway_current", .gauge, "Whether everything that the store has is in force",
                isCurrent ? 1 : 0),
        ]
    }
}

extension DropCounters {
    fileprivate var causes: [(name: String, count: UInt64)] {
        [
            ("no_peer", noPeer), ("no_endpoint", noEndpoint), ("staged_over_peer_limit", stagedOverPeerLimit),
            ("staged_over_budget", stagedOverBudget), ("staged_abandoned", stagedAbandoned),
            ("outbox_full", outboxFull), ("while_down", whileDown), ("malformed_frames", malformedFrames),
            ("refused_by_device", refusedByDevice), ("refused_by_network", refusedByNetwork), ("no_socket", noSocket),
            ("socket_queue_full", socketQueueFull), ("oversize", oversize), ("malformed", malformed),
            ("invalid_mac1", invalidMac1), ("cookie_demanded", cookieDemanded), ("rate_limited", rateLimited),
            ("rejected_handshakes", rejectedHandshakes), ("initiation_floods", initiationFloods),
            ("unknown_session", unknownSession),
        ]
    }
}
