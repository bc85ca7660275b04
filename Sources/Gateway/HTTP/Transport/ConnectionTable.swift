// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import Synchronization

/// Counts the connections of one listener by source, and ends them.
final class ConnectionTable: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: (channel: any Channel, source: RequestSource)] = [:]
        var bySource: [RequestSource: Int] = [:]
        var isDraining = false
    }

    private let limits: HTTPLimits
    private let state = Mutex(State())

    init(_ limits: HTTPLimits) { self.limits = limits }

    var count: Int { state.withLock { $0.channels.count } }

    /// Adds a connection.
    /// - Returns: `false` if the limit is reached.
    func admit(_ channel: any Channel, from source: RequestSource) -> Bool {
        state.withLock { state in
            let own = state.bySource[source, default: 0]
            guard !state.isDraining, state.channels.count < limits.connections, own < limits.connectionsOfOneSource
            else { return false }
            state.channels[ObjectIdentifier(channel)] = (channel, source)
            state.bySource[source] = own + 1
            return true
        }
    }

    func remove(_ channel: any Channel) {
        state.withLock { state in
            guard let entry = state.channels.removeValue(forKey: ObjectIdentifier(channel)) else { return }
            let left = state.bySource[entry.source, default: 1] - 1
            state.bySource[entry.source] = left > 0 ? left : nil
        }
    }

    /// Accepts no more connections, ends idle ones, and ends the others after their response.
    func drain() {
        let channels = state.withLock { state in
            state.isDraining = true
            return state.channels.values.map(\.channel)
        }
        for channel in channels { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }
    }

    /// Ends all connections.
    func close() {
        let channels = state.withLock { state in
            state.isDraining = true
            return state.channels.values.map(\.channel)
        }
        for channel in channels { channel.close(promise: nil) }
    }
}
