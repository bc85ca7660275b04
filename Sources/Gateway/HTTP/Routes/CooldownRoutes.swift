// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import HTTPTypes
import NetworkAddresses
import Provisioning
import TunnelSystem

/// The addresses in cooldown: recently released addresses that are not reused yet.
package enum CooldownRoutes {
    package static let user = RouteDescription.Parameter(
        "user", .id, "Only addresses that devices of this user had")
    package static let address = RouteDescription.Parameter("address", .line(1...64), "Only this address")

    package static let list = Route<Void, Page<CooldownEntry>>(
        .get, "/v1/cooldowns", .read, "List the addresses in cooldown after use", reply: .page(shape),
        parameters: [user, address])
    /// The reply is the number of addresses.
    package static let clear = Route<Void, Int>(
        .delete, "/v1/cooldowns", .manage, "End the cooldown of addresses, so that devices can get them",
        reply: .one(
            ReplyShape(.object([.init("cleared", .count)])) { .object(of: [("cleared", .integer($0))]) },
            "The number of these addresses"),
        parameters: [user, address], errors: [404])

    private static let shape = ReplyShape<CooldownEntry>("Cooldown")
}

extension AdminRoutes {
    func registerCooldowns(in list: inout RouteList) {
        list.register(CooldownRoutes.list) { call in
            let page = try await service.cooldowns(call.cooldownFilter(), call.page(), call.caller)
            return Page(
                items: page.items.map { CooldownEntry(cooldown: $0, endsAt: service.end(of: $0)) }, next: page.next)
        }
        list.register(CooldownRoutes.clear) { try await service.clearCooldowns($0.cooldownFilter(), $0.caller) }
    }
}

extension RouteCall {
    fileprivate func cooldownFilter() throws(GatewayError) -> CooldownFilter {
        var filter = CooldownFilter(userID: try id(CooldownRoutes.user))
        if let text = self[CooldownRoutes.address] {
            do throws(AddressTextError) { filter.address = try IPAddress(text) } catch {
                throw .invalid(field: CooldownRoutes.address.name, problem: "must be an IP address")
            }
        }
        return filter
    }
}
