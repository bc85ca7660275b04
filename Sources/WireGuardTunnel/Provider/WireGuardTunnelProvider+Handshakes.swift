// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

extension WireGuardTunnelProvider {
    /// The maximum number of handshakes requested without a pause. Each computes two products on the curve, and
    /// meanwhile the provider answers no messages.
    static let handshakesAtATime = 256
    /// The pause between two groups of requests.
    private static let handshakePause = Duration.milliseconds(10)

    /// Requests a handshake with each peer that has an endpoint: with ``handshakesAtATime`` peers before it returns,
    /// and with the others later. Peers that still wait from an earlier call come first.
    func requestHandshakes(_ run: Run) {
        let waiting = Set(dueHandshakes)
        forgetHandshakes()
        let keys = run.plane.peers().filter { $0.endpoint != nil }.map(\.publicKey)
        dueHandshakes = (keys.filter(waiting.contains) + keys.filter { !waiting.contains($0) })[...]
        requestNextHandshakes(run)
        guard !dueHandshakes.isEmpty else { return }
        let clock = run.context.clock
        requesting = Task {
            while !dueHandshakes.isEmpty, (try? await clock.sleep(for: Self.handshakePause)) != nil, let run = self.run
            {
                requestNextHandshakes(run)
            }
        }
    }

    private func requestNextHandshakes(_ run: Run) {
        let next = dueHandshakes.prefix(Self.handshakesAtATime)
        dueHandshakes = dueHandshakes.dropFirst(next.count)
        for key in next { run.plane.requestHandshake(with: key) }
    }

    /// Cancels the handshake requests that wait for their turn.
    func forgetHandshakes() {
        requesting?.cancel()
        (requesting, dueHandshakes) = (nil, [])
    }
}
