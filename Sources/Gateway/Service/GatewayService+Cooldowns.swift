// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning

extension GatewayService {
    /// Returns a page of the addresses that are in cooldown, ordered by address. While the time is not certain,
    /// this includes every released address.
    package func cooldowns(
        _ filter: CooldownFilter = CooldownFilter(), _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<Cooldown> {
        try caller.check(.read)
        let restSince = restSince(at: now)
        return try await stored("cooldown", try await store.cooldowns(filter, restSince: restSince, page))
    }

    /// Ends cooldowns, so that devices can get the addresses. While the time is not certain, this includes every
    /// released address.
    /// - Returns: The number of addresses.
    /// - Throws: `.notFound` if the filter names an address that is not in cooldown.
    package func clearCooldowns(_ filter: CooldownFilter, _ caller: Caller) async throws(GatewayError) -> Int {
        try caller.check(.manage)
        let restSince = restSince(at: now)
        let subject = filter.address.map { "address:\($0)" } ?? filter.userID.map { "user:\($0)" } ?? "gateway"
        let audit = record(.cooldownsCleared, subject, caller)
        let count = try await stored("cooldown", try await store.clearCooldowns(filter, restSince: restSince, audit))
        guard count > 0 || filter.address == nil else { throw .notFound("cooldown") }
        return count
    }

    /// The end of a cooldown.
    func end(of cooldown: Cooldown) -> Date {
        cooldown.releasedAt.addingTimeInterval(Double(settings.addressRestSeconds))
    }
}
