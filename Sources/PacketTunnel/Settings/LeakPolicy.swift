// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Which packets may leave the machine outside of the tunnel.
///
/// The words are exact: ``allows(_:in:)`` is the whole of what they mean, and hosts are tested against it. Policies are
/// ordered by how much they refuse.
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
/// "Always" and "never" are from the start of a tunnel to its end; without a tunnel everything may leave. `routeBased`
/// blocks nothing: a tunnel that fails ends, and its traffic leaves as before. A silent server is not a failure: the tunnel
/// is reasserting as long as its provider continues to try.
public enum LeakPolicy: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// The routing table decides. A program that binds to another interface bypasses the tunnel.
    case routeBased
    /// Packets routed into the tunnel pass through it or are dropped, from the moment when the settings are in effect until
    /// the user ends the tunnel, even if a program binds to another interface.
    case enforcedRoutes
    /// Every packet passes through the tunnel or is dropped, from the start of the tunnel until the user ends it. Routes do not
    /// matter.
    case everything

    /// The class of a packet, seen from the tunnel.
    ///
    /// ``TunnelSettings/trafficClass(of:onLink:isBoundElsewhere:)`` returns it for a destination.
    public enum TrafficClass: String, Codable, Hashable, Sendable, CaseIterable {
        /// The provider's own packets to its server, and its lookups of the server's name.
        case tunnelTransport
        /// Packets that do not leave the machine.
        case loopback
        /// Packets that the link needs: DHCP, ARP, neighbour and router discovery.
        case linkConfiguration
        /// To a network that is attached directly, where ``TunnelSettings/allowsLocalNetwork`` is set.
        case localNetwork
        /// To a destination in one of ``TunnelSettings/allowedNetworks``.
        case allowedNetwork
        /// To a destination in an excluded route.
        case excluded
        /// To a destination in neither an included nor an excluded route.
        case unrouted
        /// To a destination in an included route.
        case included
        /// To a destination in an included route, by a program that binds to another interface.
        case includedBoundElsewhere
        /// A lookup of a name that the tunnel's servers should answer.
        case tunnelDNS
        /// A lookup of another name.
        case otherDNS
    }

    /// The phase of the tunnel for leaks.
    public enum Phase: String, Codable, Hashable, Sendable, CaseIterable {
        /// There is no tunnel: never started, stopped by the user, or failed under a policy that does not block.
        case off
        /// From the start until the provider's settings are in effect, and after a start that failed before. With settings it
        /// counts as ``up``, proven or not.
        case connecting
        /// The settings are in effect.
        case up
        /// The settings are in effect or being replaced, and the tunnel has no connection at present.
        case reasserting
        /// The tunnel failed after its settings were in effect, or its provider is stopping.
        case blocked
    }

    /// Whether such packets may leave the machine outside of the tunnel.
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

    /// The stricter one is greater.
    public static func < (left: LeakPolicy, right: LeakPolicy) -> Bool { left.strictness < right.strictness }

    private var strictness: Int {
        switch self {
        case .routeBased: 0
        case .enforcedRoutes: 1
        case .everything: 2
        }
    }
}
