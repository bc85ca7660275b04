// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The constants of the connectivity monitor. Times are in seconds.
public struct ConnectivityOptions: Hashable, Sendable {
    /// Whether there is a monitor at all.
    public var isEnabled: Bool
    /// The time between two looks at what was received.
    public var connectivityInterval: Double
    /// How many looks in a row may find nothing before pings are sent, and as many again before healing begins.
    public var maxConnectionAttempts: Int
    /// What is pinged through the tunnel: an address, or a name that is resolved by the tunnel's DNS servers. Nil asks the
    /// peer for a handshake instead, and that only while something is owed that was sent: an idle tunnel sends nothing.
    public var pingAddress: String?
    /// The time between two pings.
    public var pingInterval: Double
    /// How long each step of healing is given.
    public var healingInterval: Double
    /// Whether a dead tunnel ends, and when.
    public var endWhenDead: EndWhenDead

    /// Whether a tunnel ends through which nothing comes any more, and when. It is the same whatever is routed into it.
    public enum EndWhenDead: String, Codable, Hashable, Sendable, CaseIterable {
        /// It stays up and is healed again and again, until it works or is stopped. What is routed into it goes nowhere
        /// meanwhile, and so never beside it.
        case never
        /// It ends once a round of healing did not help.
        case afterHealing
        /// It ends instead of being healed: for who has another server to go to.
        case atOnce
    }

    /// Options.
    public init(
        isEnabled: Bool = true, connectivityInterval: Double = 10, maxConnectionAttempts: Int = 3,
        pingAddress: String? = nil, pingInterval: Double = 2, healingInterval: Double = 10,
        endWhenDead: EndWhenDead = .never
    ) {
        self.isEnabled = isEnabled
        self.connectivityInterval = connectivityInterval
        self.maxConnectionAttempts = maxConnectionAttempts
        self.pingAddress = pingAddress
        self.pingInterval = pingInterval
        self.healingInterval = healingInterval
        self.endWhenDead = endWhenDead
    }

    /// A plain stop instead of healing, for an app that has another server to go to, or leaves that to rules on demand: a look every
    /// ten seconds, pings every two seconds after three that found nothing, and an end with `.connectivityLost`
    /// after as many again.
    /// - Parameter pingAddress: what is pinged through the tunnel; without it the peer is asked for a handshake.
    public static func plainStop(pingAddress: String? = nil) -> ConnectivityOptions {
        ConnectivityOptions(
            connectivityInterval: 10, maxConnectionAttempts: 3, pingAddress: pingAddress, pingInterval: 2,
            endWhenDead: .atOnce)
    }

    /// The longest time from the last sign of life, or from when the machine woke up, until the tunnel is no longer called
    /// connected. It holds for the whole tunnel, and for each peer that a default route goes to, while something is owed: from what
    /// was sent first without an answer on. Of a tunnel that nobody uses nothing is said, unless there is a ``pingAddress``.
    public var timeToNotice: Duration {
        // The last sign of life may have come right after a look, and a look may come one ping late.
        .seconds(connectivityInterval * Double(2 * maxConnectionAttempts + 1) + 2 * pingInterval)
    }

    /// The longest time from the last sign of life until the tunnel ends, when nothing helps; nil where it does not
    /// (``endWhenDead``).
    public var timeToGiveUp: Duration? {
        switch endWhenDead {
        case .never: nil
        case .afterHealing:
            timeToNotice + .seconds((healingInterval + pingInterval) * Double(ConnectivityMonitor.Step.allCases.count))
        case .atOnce: timeToNotice
        }
    }

    /// The longest time from when network, name servers and server are good again until the tunnel is proven, where it does
    /// not end: a round of healing at its slowest, and a handshake.
    public var timeToHeal: Duration {
        .seconds((healingInterval * 8 + pingInterval) * Double(ConnectivityMonitor.Step.allCases.count) + 15)
    }
}

extension ConnectivityOptions: Codable {
    private enum CodingKeys: String, CodingKey {
        case isEnabled, connectivityInterval, maxConnectionAttempts, pingAddress, pingInterval, healingInterval
        case endWhenDead
    }

    /// Decodes; what is left out has its default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let standard = ConnectivityOptions()
        self.init(
            isEnabled: try container.decodeIfPresent(Bool.self, forKey: .isEnabled) ?? standard.isEnabled,
            connectivityInterval: try container.decodeIfPresent(Double.self, forKey: .connectivityInterval)
                ?? standard.connectivityInterval,
            maxConnectionAttempts: try container.decodeIfPresent(Int.self, forKey: .maxConnectionAttempts)
                ?? standard.maxConnectionAttempts,
            pingAddress: try container.decodeIfPresent(String.self, forKey: .pingAddress),
            pingInterval: try container.decodeIfPresent(Double.self, forKey: .pingInterval) ?? standard.pingInterval,
            healingInterval: try container.decodeIfPresent(Double.self, forKey: .healingInterval)
                ?? standard.healingInterval,
            endWhenDead: try container.decodeIfPresent(EndWhenDead.self, forKey: .endWhenDead) ?? standard.endWhenDead)
    }
}
