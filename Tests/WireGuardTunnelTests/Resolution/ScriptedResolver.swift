// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization

@testable import WireGuardTunnel

/// A resolver that answers from a table, or hangs.
final class ScriptedResolver: EndpointResolver {
    enum Answer: Sendable {
        case addresses([IPAddress])
        case failure
        case hang
    }

    private let state = Mutex<(table: [String: Answer], asked: [String])>(([:], []))

    private let changes: Changes

    /// A resolver that tells `changes` whenever it is asked.
    init(_ table: [String: [IPAddress]] = [:], changes: Changes = Changes()) {
        self.changes = changes
        state.withLock { $0.table = table.mapValues { .addresses($0) } }
    }

    func set(_ name: String, _ answer: Answer) { state.withLock { $0.table[name] = answer } }

    var asked: [String] { state.withLock { $0.asked } }

    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress] {
        try await resolve(name)
    }

    func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        let answer = state.withLock { state in
            state.asked.append(name)
            return state.table[name] ?? .failure
        }
        changes.tell()
        switch answer {
        case .addresses(let addresses): return addresses
        case .failure: throw TunnelError(.nameResolutionFailed, "no such name")
        case .hang:
            // Not even for cancellation.
            await withCheckedContinuation { continuation in hanging.withLock { $0.append(continuation) } }
            return []
        }
    }

    private let hanging = Mutex<[CheckedContinuation<Void, Never>]>([])

    func release() {
        let all = hanging.withLock { hanging in
            defer { hanging = [] }
            return hanging
        }
        for one in all { one.resume() }
    }
}
