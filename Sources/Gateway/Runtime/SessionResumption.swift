// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import WireGuardCore

/// The handshakes that a gateway starts after its own start, after its interface came up again, and with devices whose
/// access returns.
///
/// The sessions of WireGuard end with the gateway's process, when its interface is set down, and with a device's access.
/// But the device continues to use its session until a packet has had no answer for 15 s. A handshake that the gateway
/// starts gives both ends a new session immediately. Only endpoints of authenticated devices get an initiation.
struct SessionResumption: Sendable {
    /// The number of initiations to an endpoint that does not answer.
    static let attempts = 3
    /// The number of handshakes that start together, and the pause after them, which bounds their rate to 1,000 per second.
    static let (groupSize, pause) = (20, Duration.milliseconds(20))

    /// The devices in the order of their handshakes: the last one that was seen is the first.
    let devices: [(key: PublicKey, endpoint: Endpoint)]

    /// Selects the devices that may still have a session, which lasts for 180 s (WireGuard paper, section 6.1). If the gateway
    /// was killed, the store may lack what happened within one interval between flushes.
    ///
    /// A time in the future counts as now: the clock was wrong then, and the real time is not known. If more than half of the
    /// times are in the future, the clock is wrong now: the second latest time replaces it, because the latest one may be
    /// wrong too.
    init(_ former: [PublicKey: FormerEndpoint], at now: Date, flushInterval: Duration) {
        let longest: Duration = .nanoseconds(TimerConstants.rejectAfterTime) + flushInterval
        let times = former.values.map(\.seenAt).sorted(by: >)
        let isBehind = 2 * times.count(where: { $0 > now }) > times.count
        let reference = isBehind ? times.prefix(2).last ?? now : now
        devices =
            former
            .filter { reference.timeIntervalSince($0.value.seenAt) <= longest / .seconds(1) }
            .sorted { $0.value.seenAt > $1.value.seenAt }
            .map { ($0.key, $0.value.endpoint) }
    }

    /// Selects the peers whose session has ended although it may still be valid at the other end.
    init(withoutSession peers: [PeerSnapshot], at now: Date) {
        var former: [PublicKey: FormerEndpoint] = [:]
        for peer in peers where !peer.hasSession {
            guard let endpoint = peer.endpoint, let last = peer.lastHandshake else { continue }
            former[peer.publicKey] = FormerEndpoint(
                endpoint, seenAt: Date(timeIntervalSince1970: Double(last.seconds)))
        }
        self.init(former, at: now, flushInterval: .zero)
    }

    /// Runs resumptions one after another. Cancelling the task ends the present one, and the others do not start.
    static func run(
        _ resumptions: AsyncStream<SessionResumption>, each body: @Sendable (SessionResumption) async -> Void
    ) async {
        // A cancelled task still receives the elements that the stream has.
        for await resumption in resumptions where !Task.isCancelled { await body(resumption) }
    }

    /// Starts the handshakes at a bounded rate, until the task is cancelled.
    /// - Parameter start: Starts a handshake; returns false for a device that is connected already, or is no longer a peer.
    /// - Returns: The number of handshakes that were started.
    func run(
        clock: any Clock<Duration> = ContinuousClock(), start: (PublicKey, Endpoint) -> Bool
    ) async -> Int {
        var started = 0
        for (index, device) in devices.enumerated() {
            if index > 0, index.isMultiple(of: Self.groupSize) {
                guard (try? await clock.sleep(for: Self.pause)) != nil else { return started }
            }
            if start(device.key, device.endpoint) { started += 1 }
        }
        return started
    }
}
