// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The packets that may bypass the tunnel.
///
/// ``allows(_:in:)`` is the exact definition of each policy, and hosts are tested against it. Policies are ordered by
/// strictness.
///
/// | Traffic | `routeBased` | `enforcedRoutes` | `everything` |
/// |---|---|---|---|
/// | the provider's own, to its server | always | always | always |
/// | loopback; the link's own (DHCP, ARP, neighbours) | always | always | always |
/// | local network, where the settings allow it | always | always | always |
/// | to allowed networks | always | always | always |
/// | to excluded routes | always | always | never |
/// | to neither included nor excluded routes | always | always | never |
/// | to included routes | not while up or reasserting | while connecting only | never |
/// | to included routes, bound to another interface | always | while connecting only | never |
/// | name lookups that the tunnel should answer | not while up or reasserting | while connecting only | never |
/// | other name lookups | always | always | never |
///
/// "Always" and "never" apply from the start of a tunnel to its end; without a tunnel every packet may pass.
/// `routeBased` never blocks: when its tunnel fails, the tunnel ends and its traffic takes the usual routes again. A
/// silent server is not a failure: the tunnel is reasserting while its provider tries to reconnect.
public enum LeakPolicy: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// The routing table decides. A program that binds to another interface bypasses the tunnel.
    case routeBased
    /// Packets routed into the tunnel pass through it or are dropped, from the moment when the settings are in effect until
    /// the user ends the tunnel, even if a program binds to another interface.
    case enforcedRoutes
    /// Every packet passes through the tunnel or is dropped, from the start of the tunnel until the user ends it,
    /// regardless of routes.
    case everything

    /// The class of a packet with respect to the tunnel.
    ///
    /// ``TunnelSettings/trafficClass(of:onLink:isBoundElsewhere:)`` returns it for a destination.
    public enum TrafficClass: String, Codable, Hashable, Sendable, CaseIterable {
        /// The provider's own packets to its server, and its lookups of the server's name.
        case tunnelTransport
        /// Packets within the machine.
        case loopback
        /// Packets that the link needs: DHCP, ARP, neighbour and router discovery.
        case linkConfiguration
        /// Packets to an attached network, if ``TunnelSettings/allowsLocalNetwork`` is set.
        case localNetwork
        /// Packets to a destination in one of ``TunnelSettings/allowedNetworks``.
        case allowedNetwork
        /// Packets to a destination in an excluded route.
        case excluded
        /// Packets to a destination in neither an included nor an excluded route.
        case unrouted
        /// Packets to a destination in an included route.
        case included
        /// Packets to a destination in an included route, from a program that binds to another interface.
        case includedBoundElsewhere
        /// DNS queries for names that the tunnel's servers should resolve.
        case tunnelDNS
        /// DNS queries for other names.
        case otherDNS
    }

    /// The phase of the tunnel, as far as the leak policy depends on it.
    public enum Phase: String, Codable, Hashable, Sendable, CaseIterable {
        /// There is no tunnel: it was never started, the user stopped it, or it failed under a policy that does not
        /// block.
        case off
        /// From the start until the provider's settings are in effect, and after a start that failed before that. Once
        /// settings are in effect the phase is ``up``, even if the start has not succeeded yet.
        case connecting
        /// The settings are in effect.
        case up
        /// The settings are in effect or being replaced, and the tunnel currently has no connection.
        case reasserting
        /// The tunnel failed after its settings were in effect, or its provider is stopping.
        case blocked
    }

    /// Whether packets of this class may bypass the tunnel in this phase.
    public func allows(_ traffic: TrafficClass, in phase: Phase) -> Bool {
        if phase == .off { return true }
        return switch (traffic, self) {
        case (.tunnelTransport, _), (.loopback, _), (.linkConfiguration, _), (.localNetwork, _), (.allowedNetwork, _):
            true
        case (_, .everything): false
        case (.excluded, .routeBased), (.unrouted, .routeBased), (.otherDNS, .routeBased): true
        case (.excluded, .enforcedRoutes), (.unrouted, .enforcedRoutes), (.otherDNS, .enforcedRoutes): true
        case (.included, .routeBased), (.tunnelDNS, .routeBased): phase == .connecting || phase == .blocked
        case (.includedBoundElsewhere, .routeBased): true
        case (.included, .enforcedRoutes), (.includedBoundElsewhere, .enforcedRoutes), (.tunnelDNS, .enforcedRoutes):
            phase == .connecting
        }
    }

    /// Compares by strictness: the stricter policy is greater.
    public static func < (left: LeakPolicy, right: LeakPolicy) -> Bool { left.strictness < right.strictness }

    private var strictness: Int {
        switch self {
        case .routeBased: 0
        case .enforcedRoutes: 1
        case .everything: 2
        }
    }
}
