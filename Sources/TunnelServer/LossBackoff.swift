// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time for which forwarding stays suspended after a lost firewall was loaded again.
///
/// Each loss exposes the host until the kernel's notice was read. Forwarding therefore resumes immediately after the first
/// losses of a series, but then only after the firewall has stayed in effect for a while, which doubles with each loss. The
/// series ends step by step while the firewall is in effect, so that a reload by an administrator each minute causes no pause.
struct LossBackoff {
    /// The number of losses in the series, at most ``most``.
    private(set) var count = 0
    /// The time since which the firewall is in effect; `nil` while it is lost, and before the first loss.
    private var inEffectSince: Int64?

    /// The number of losses after which forwarding resumes immediately.
    static let immediate = 2
    /// The number of losses from which the pause does not get longer.
    static let most = 8
    /// The first pause, in nanoseconds.
    static let shortest: Int64 = 1_000_000_000
    /// The time in effect that takes one loss off the series, in nanoseconds.
    static let decay: Int64 = 15_000_000_000

    /// The time for which the firewall must be in effect before forwarding resumes, in nanoseconds.
    var pause: Int64 { count > Self.immediate ? Self.shortest << Int64(count - Self.immediate - 1) : 0 }

    /// Records that the firewall is lost. Calls until ``recordInEffect(at:)`` count as one loss.
    mutating func recordLoss(at now: Int64) {
        if let inEffectSince {
            count -= Int(clamping: min(max(now - inEffectSince, 0) / Self.decay, Int64(count)))
        } else if count > 0 {
            return
        }
        inEffectSince = nil
        count = min(count + 1, Self.most)
    }

    /// Records that the firewall is in effect.
    mutating func recordInEffect(at now: Int64) {
        if inEffectSince == nil { inEffectSince = now }
    }

    /// The time until forwarding may resume, in nanoseconds; `nil` while the firewall is lost.
    func remaining(at now: Int64) -> Int64? {
        inEffectSince.map { max($0 + pause - now, 0) }
    }
}
