// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// Starts and stops tunnels as a person taps their switches, who may tap again before the first tap has had its effect.
@MainActor
final class SwitchTaps {
    private struct Wish {
        var number: Int
        var isOn: Bool
        var task: Task<Void, any Error>
    }

    private let manager: TunnelManager
    private var wishes: [String: Wish] = [:]
    private var count = 0

    init(_ manager: TunnelManager) { self.manager = manager }

    /// Whether a tap now switches the tunnel on: the opposite of the last tap, or of the status if no tap is under way.
    func turnsOn(_ id: String) async -> Bool {
        while true {
            let before = count
            let isActive = await manager.status(id).status.isActive
            if let wish = wishes[id] { return !wish.isOn }
            // A tap that began and ended since then makes the status outdated.
            if count == before { return !isActive }
        }
    }

    /// Switches a tunnel. Switching it off turns off its start on demand too, since the system would start it again.
    /// - Parameter report: called with the status, unless a later tap is under way.
    /// - Throws: the error of this tap, unless a later tap has made it irrelevant.
    func set(_ isOn: Bool, _ id: String, report: (TunnelStatusUpdate) -> Void) async throws {
        try await wish(isOn, id, report) { try await self.apply(isOn, id, after: $0) }
    }

    /// Stops a tunnel if it is up, and starts it, so that it uses its saved settings. A later tap counts instead.
    func restart(_ id: String, report: (TunnelStatusUpdate) -> Void) async throws {
        try await wish(true, id, report) { earlier in
            _ = await earlier?.result
            guard self.wishes[id]?.isOn == true else { return }
            if await self.manager.status(id).status.isActive { try await self.manager.stop(id) }
            guard self.wishes[id]?.isOn == true else { return }
            try await self.manager.start(id)
        }
    }

    private func wish(
        _ isOn: Bool, _ id: String, _ report: (TunnelStatusUpdate) -> Void,
        _ body: @escaping @MainActor (_ earlier: Task<Void, any Error>?) async throws -> Void
    ) async throws {
        count += 1
        let (number, earlier) = (count, wishes[id]?.task)
        let task = Task { try await body(earlier) }
        wishes[id] = Wish(number: number, isOn: isOn, task: task)
        let result = await task.result
        let status = await manager.status(id)
        guard wishes[id]?.number == number else { return }
        report(status)
        wishes[id] = nil
        try result.get()
    }

    private func apply(_ isOn: Bool, _ id: String, after earlier: Task<Void, any Error>?) async throws {
        if isOn {
            _ = await earlier?.result
            guard wishes[id]?.isOn == true else { return }
            return try await manager.start(id)
        }
        var failure: (any Error)?
        do { try await turnOffOnDemand(id) } catch { failure = error }
        // Whether or not that was saved; and not after the earlier start, which may take a minute.
        try await manager.stop(id)
        if let earlier {
            _ = await earlier.result
            if wishes[id]?.isOn == false, await manager.status(id).status.isActive { try await manager.stop(id) }
        }
        if let failure { throw failure }
    }

    private func turnOffOnDemand(_ id: String) async throws {
        // The user may have turned it on in the system's settings. If the load fails, the values of the last one count.
        _ = try? await manager.load()
        var profile = try await manager.profile(id)
        guard profile.isOnDemandEnabled else { return }
        profile.isOnDemandEnabled = false
        try await manager.update(profile)
    }
}
