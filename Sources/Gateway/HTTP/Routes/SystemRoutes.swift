// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import PacketTunnel
import PacketTunnelLinux
import Provisioning
import TunnelSystem

/// The routes for monitoring, and their handlers.
package struct SystemRoutes: Sendable {
    private let service: GatewayService
    private let metrics: @Sendable () async -> [MetricFamily]
    private let readiness: @Sendable () async -> Readiness

    /// - Parameters:
    ///   - metrics: Returns the metrics of the process.
    ///   - readiness: Returns the state that `/ready` reports.
    package init(
        _ service: GatewayService, metrics: @escaping @Sendable () async -> [MetricFamily],
        readiness: @escaping @Sendable () async -> Readiness
    ) {
        self.service = service
        self.metrics = metrics
        self.readiness = readiness
    }

    static func health(at path: String) -> Route<Void, Void> {
        Route(
            .get, path, .open, "Check that the process answers",
            reply: .one(
                ReplyShape(.object([.init("status", .choice(["ok"]))])) { _ in ["status": "ok"] }, "The process answers"
            ))
    }
    static let ready = Route<Void, Readiness>(
        .get, "/ready", .open, "Check that devices are served", reply: .readiness)
    static let metrics = Route<Void, [UInt8]>(
        .get, "/metrics", .localRead, "Show the metrics for Prometheus",
        reply: .bytes(
            PrometheusText.mediaType, documentedAs: "text/plain", "Prometheus's text format 0.0.4"))

    package func register(in list: inout RouteList) {
        list.register(Self.health(at: "/health")) { _ in }
        list.register(Self.ready) { _ in await readiness() }
        list.register(Self.metrics) { call in
            // The service checks the caller's permission.
            let status = try await service.status(call.caller)
            return Array(PrometheusText.text(await metrics() + status.families).utf8)
        }
    }
}

extension ReplyFormat where Reply == Readiness {
    /// The largest number of problems in a reply. There may be one for each device.
    private static var mostProblems: Int { 100 }

    fileprivate static var readiness: ReplyFormat {
        let problems = JSONSchema.Member(
            "problems",
            .list(of: .object([.init("what", .text()), .init("since", .time)]), count: 0...mostProblems),
            isRequired: false,
            note: """
                The parts of the gateway that are not in effect, a database that refuses writes, revocations that are in effect but \
                not saved, listeners that accept no connections, and the devices that are excluded
                """)
        return ReplyFormat([
            .init(
                status: 200, schema: .object([.init("status", .choice(["ok"])), problems]),
                note: "Devices are served, except for those in `problems`"),
            .init(
                status: 503, schema: ModelSchemas.problemSchema(with: [problems]), mediaType: ProblemDetails.mediaType,
                note: "Devices are not served; `problems` contains the reasons"),
        ]) { reply($0) }
    }

    private static func reply(_ readiness: Readiness) -> APIReply {
        let found = readiness.problems + readiness.unsaved + readiness.listeners + readiness.exclusions
        let problems = found.prefix(mostProblems).map { problem in
            JSON.object([
                "what": .string(problem.what), "since": .time(Date(timeIntervalSince1970: problem.since)),
            ])
        }
        var members: [String: JSON] = problems.isEmpty ? [:] : ["problems": .array(problems)]
        guard !readiness.isReady else {
            members["status"] = .string("ok")
            return APIReply(200, .object(members))
        }
        if case .object(let details) = ProblemDetails(.unavailable, detail: "devices are not served").json.ordered {
            for detail in details { members[detail.name] = detail.value }
        }
        return APIReply(503, mediaType: ProblemDetails.mediaType, body: JSON.object(members).bytes)
    }
}

extension GatewayStatus {
    /// The metrics of the store.
    package var families: [MetricFamily] {
        func figures(_ value: (PoolFigures) -> Int) -> [MetricFamily.Sample] {
            pools.map { .init(Double(value($0)), labels: [.init("network", "\($0.network)")]) }
        }
        return [
            MetricFamily("culvert_gateway_users", .gauge, "Users", counts.users),
            MetricFamily("culvert_gateway_devices", .gauge, "Devices", counts.devices),
            MetricFamily(
                "culvert_gateway_active_devices", .gauge, "Devices with a key that are admitted", counts.activeDevices),
            MetricFamily(
                "culvert_gateway_open_invitations", .gauge, "Invitations that can be used", counts.openInvitations),
            MetricFamily("culvert_gateway_tokens", .gauge, "Tokens of the API", counts.tokens),
            MetricFamily(
                "culvert_gateway_change_sequence", .gauge, "The number of the latest change", counts.sequence),
            MetricFamily("culvert_gateway_pool_in_use", .gauge, "Addresses in use", figures(\.inUse)),
            MetricFamily("culvert_gateway_pool_resting", .gauge, "Addresses in cooldown after use", figures(\.resting)),
            MetricFamily(
                "culvert_gateway_pool_capacity", .gauge, "The largest number of devices", figures(\.capacity)),
            MetricFamily(
                "culvert_gateway_device_bytes_total", .counter, "Bytes of all devices, including removed ones",
                [
                    .init(Double(counts.traffic.received), labels: [.init("direction", "received")]),
                    .init(Double(counts.traffic.sent), labels: [.init("direction", "sent")]),
                ]),
        ]
    }
}
