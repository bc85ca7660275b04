// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import NetworkAddresses
import Provisioning
import TunnelSystem

extension AdminRoutes {
    private static let cooldownFilter: [APIRoute.Parameter] = [
        .init(name: "user", schema: .id, note: "Only addresses that devices of this user had"),
        .init(name: "address", schema: .line(1...64), note: "Only this address"),
    ]

    /// The routes of addresses that rest after use.
    var cooldowns: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/cooldowns", .read, "List the addresses that rest after use",
                parameters: Self.paging + Self.cooldownFilter,
                replies: [.init(status: 200, schema: ModelSchemas.page("Cooldown"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                let page = try await service.cooldowns(
                    try request.cooldownFilter(), try request.page(), try request.caller)
                return APIReply(
                    200, .page(page) { CooldownEntry(cooldown: $0, endsAt: service.end(of: $0)).json })
            },
            APIRoute(
                .delete, "/v1/cooldowns", .manage, "End the rest of addresses, so that devices can get them",
                parameters: Self.cooldownFilter,
                replies: [
                    .init(
                        status: 200, schema: .object([.init("cleared", .count)]), note: "The number of these addresses")
                ], problems: [404]
            ) { (request) async throws(GatewayError) in
                let count = try await service.clearCooldowns(try request.cooldownFilter(), try request.caller)
                return APIReply(200, .members(["cleared": .count(count)]))
            },
        ]
    }
}

extension APIRequest {
    fileprivate func cooldownFilter() throws(GatewayError) -> CooldownFilter {
        var filter = CooldownFilter(userID: try queriedID("user"))
        if let text = query["address"] {
            do throws(AddressTextError) { filter.address = try IPAddress(text) } catch {
                throw .invalid(field: "address", problem: "must be an IP address")
            }
        }
        return filter
    }
}
