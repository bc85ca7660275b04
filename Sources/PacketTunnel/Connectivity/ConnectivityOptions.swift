// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The constants of the connectivity monitor. Times are in seconds.
public struct ConnectivityOptions: Hashable, Sendable {
    /// Whether the tunnel is monitored.
    public var isEnabled: Bool
    /// The interval between checks for received data, in seconds.
    public var connectivityInterval: Double
    /// The number of consecutive checks without received data before pings are sent, and of further
    /// ones before healing starts.
    public var maxConnectionAttempts: Int
    /// The address to ping through the tunnel, or a name that the tunnel's DNS servers resolve. If `nil`, a handshake is
    /// requested instead, and only while the peer owes an answer: an idle tunnel sends nothing.
    public var pingAddress: String?
    /// The time between pings.
    public var pingInterval: Double
    /// The time that each healing step may take.
    public var healingInterval: Double
    /// The condition under which a dead tunnel ends.
    public var endWhenDead: EndWhenDead

    /// The condition under which a tunnel ends if no data arrives through it. It does not depend on the tunnel's routes.
    public enum EndWhenDead: String, Codable, Hashable, Sendable, CaseIterable {
        /// The tunnel stays up and is healed repeatedly until it works or is stopped. Until then its routed traffic is
        /// dropped, so that none leaves outside the tunnel.
        case never
        /// The tunnel ends after a round of healing without success.
        case afterHealing
        /// The tunnel ends instead of being healed, for apps that can connect to another server.
        case atOnce
    }

    /// Makes options.
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

    /// Options for a tunnel that stops instead of healing, for an app that connects to another server or relies on on-demand
    /// rules. The tunnel is checked every ten seconds. After three checks without received data it is pinged every two
    /// seconds, and after three more it ends with `.connectivityLost`.
    /// - Parameter pingAddress: the address to ping through the tunnel; if `nil`, a handshake is requested instead.
    public static func plainStop(pingAddress: String? = nil) -> ConnectivityOptions {
        ConnectivityOptions(
            connectivityInterval: 10, maxConnectionAttempts: 3, pingAddress: pingAddress, pingInterval: 2,
            endWhenDead: .atOnce)
    }

    /// The longest time from the last proof that the tunnel works, or from wake-up, until the tunnel is no longer reported as
    /// connected. It applies to the whole tunnel, and to each peer with a default route, while an answer is owed: it counts
    /// from the first unanswered packet. An idle tunnel is not checked unless it has a ``pingAddress``. A message that
    /// the protocol itself sends in an idle tunnel without keepalives may count from up to a minute later.
    public var timeToNotice: Duration {
        // The last proof may have arrived right after a check, and a check may be one ping interval late.
        .seconds(connectivityInterval * Double(2 * maxConnectionAttempts + 1) + 2 * pingInterval)
    }

    /// The longest time from the last proof that the tunnel works until the tunnel ends if healing fails; `nil` if the tunnel
    /// does not end (``endWhenDead``).
    public var timeToGiveUp: Duration? {
        switch endWhenDead {
        case .never: nil
        case .afterHealing:
            timeToNotice + .seconds((healingInterval + pingInterval) * Double(ConnectivityMonitor.Step.allCases.count))
        case .atOnce: timeToNotice
        }
    }

    /// The longest time from when the network, the name servers and the server work again until the tunnel is proven, if the
    /// tunnel does not end: the slowest round of healing, and a handshake.
    public var timeToHeal: Duration {
        .seconds((healingInterval * 8 + pingInterval) * Double(ConnectivityMonitor.Step.allCases.count) + 15)
    }
}

extension ConnectivityOptions {
    /// Returns all problems of the options; empty if they are valid.
    package func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        let times = [
            ("connectivityInterval", connectivityInterval), ("pingInterval", pingInterval),
            ("healingInterval", healingInterval),
        ]
        for (name, value) in times where !(0.01...86_400).contains(value) {
            problems.append(
                SettingsProblem(
                    field: "connectivity.\(name)", value: "\(value)", problem: "is not within 0.01 to 86400 seconds",
                    fix: "leave it out for the default"))
        }
        if !(1...1000).contains(maxConnectionAttempts) {
            problems.append(
                SettingsProblem(
                    field: "connectivity.maxConnectionAttempts", value: "\(maxConnectionAttempts)",
                    problem: "is not within 1 to 1000", fix: "leave it out for the default"))
        }
        if let pingAddress, (try? IPAddress(pingAddress)) == nil,
            (try? EndpointAddress(host: pingAddress, port: 1)) == nil
        {
            problems.append(
                SettingsProblem(
                    field: "connectivity.pingAddress", value: pingAddress, problem: "is neither a name nor an address",
                    fix: "use an address behind the tunnel that answers ping"))
        }
        return problems
    }
}

extension TunnelError {
    /// The error of a tunnel that ends because no data arrives through it.
    /// - Parameter server: The address or name of the server.
    package static func connectivityLost(to server: String, _ options: ConnectivityOptions) -> TunnelError {
        TunnelError(
            .connectivityLost,
            "no data arrives through the tunnel to \(server)"
                + (options.endWhenDead == .atOnce ? "" : ", and healing did not help"),
            fix: "check the server and the network, and start again")
    }
}

extension ConnectivityOptions: Codable {
    private enum CodingKeys: String, CodingKey {
        case isEnabled, connectivityInterval, maxConnectionAttempts, pingAddress, pingInterval, healingInterval
        case endWhenDead
    }

    /// Decodes the options; missing members have their defaults.
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
