// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time for which forwarding stays suspended after a lost firewall was loaded again.
///
/// Each loss exposes the host until the kernel's notice was read. Forwarding therefore resumes immediately after the first
/// losses of a series, but then only after the firewall has stayed in effect for a while, which doubles with each loss.
struct LossBackoff {
    /// The number of losses in the series, and the time of the last one, on `LaneClock`.
    private(set) var count = 0
    private var last: Int64?
    /// The time since which the firewall is in effect; `nil` while it is lost.
    private var inEffectSince: Int64?
    private var isLost = false

    /// The number of losses after which forwarding resumes immediately.
    static let immediate = 2
    /// The first and the longest pause, in nanoseconds.
    static let (shortest, longest): (Int64, Int64) = (1_000_000_000, 32_000_000_000)
    /// The time without a loss that ends a series, in nanoseconds. It is longer than a pause.
    static let memory: Int64 = 2 * longest

    /// The time for which the firewall must be in effect before forwarding resumes, in nanoseconds.
    var pause: Int64 {
        guard count > Self.immediate else { return 0 }
        return min(Self.shortest << Int64(min(count - Self.immediate - 1, 8)), Self.longest)
    }

    /// Records that the firewall is lost. Calls until ``recordInEffect(at:)`` count as one loss.
    mutating func recordLoss(at now: Int64) {
        inEffectSince = nil
        guard !isLost else { return }
        if let last, now - last >= Self.memory { count = 0 }
        (isLost, last) = (true, now)
        count += 1
    }

    /// Records that the firewall is in effect.
    mutating func recordInEffect(at now: Int64) {
        isLost = false
        if inEffectSince == nil { inEffectSince = now }
    }

    /// The time until forwarding may resume, in nanoseconds; `nil` while the firewall is lost.
    func remaining(at now: Int64) -> Int64? {
        inEffectSince.map { max($0 + pause - now, 0) }
    }
}
