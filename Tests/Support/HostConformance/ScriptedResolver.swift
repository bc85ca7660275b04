// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
package import PacketTunnelTesting
import Synchronization

/// A resolver that answers from a table, or hangs.
package final class ScriptedResolver: EndpointResolver {
    package enum Answer: Sendable {
        case addresses([IPAddress])
        case failure
        case hang
    }

    private let state = Mutex<(table: [String: Answer], asked: [String])>(([:], []))

    private let changes: Changes

    /// A resolver that notifies `changes` of each query.
    package init(_ table: [String: [IPAddress]] = [:], changes: Changes = Changes()) {
        self.changes = changes
        state.withLock { $0.table = table.mapValues { .addresses($0) } }
    }

    package func set(_ name: String, _ answer: Answer) { state.withLock { $0.table[name] = answer } }

    package var asked: [String] { state.withLock { $0.asked } }

    package func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress] {
        try await resolve(name)
    }

    package func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        let answer = state.withLock { state in
            state.asked.append(name)
            return state.table[name] ?? .failure
        }
        changes.notify()
        switch answer {
        case .addresses(let addresses): return addresses
        case .failure: throw TunnelError(.nameResolutionFailed, "no such name")
        case .hang:
            // It does not return even if the task is cancelled.
            await withCheckedContinuation { continuation in hanging.withLock { $0.append(continuation) } }
            return []
        }
    }

    private let hanging = Mutex<[CheckedContinuation<Void, Never>]>([])

    package func release() {
        let all = hanging.withLock { hanging in
            defer { hanging = [] }
            return hanging
        }
        for one in all { one.resume() }
    }
}
