// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A rule for flows that a client begins, or for flows that begin towards it. The first rule that fits a flow decides.
package struct AccessRule: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable { case allow, deny }

    package enum Direction: String, Hashable, Sendable, CaseIterable {
        /// Flows from the client to these networks. The policy for all clients decides on flows that no rule fits.
        case out
        /// Flows from these networks to the client. A flow that no rule fits is denied.
        case `in`
    }

    package enum Transport: String, Hashable, Sendable, CaseIterable {
        /// Any protocol; with ports, TCP and UDP.
        case any
        case tcp, udp
        /// ICMP of both families.
        case icmp
    }

    package var action: Action
    package var direction: Direction
    /// The networks at the other end; empty for any.
    package var networks: [IPPrefix]
    package var transport: Transport
    /// The destination ports of the flow; empty for any.
    package var ports: [ClosedRange<UInt16>]

    package init(
        _ action: Action, direction: Direction = .out, networks: [IPPrefix] = [], transport: Transport = .any,
        ports: [ClosedRange<UInt16>] = []
    ) {
        self.action = action
        self.direction = direction
        self.networks = networks
        self.transport = transport
        self.ports = ports
    }

    /// The rule in the firewall. ICMP has no ports: a rule for ICMP that allows some ports is left out (`nil`), and one
    /// that denies some ports denies all ICMP.
    var effective: AccessRule? {
        guard transport == .icmp, !ports.isEmpty else { return self }
        return action == .deny ? AccessRule(.deny, direction: direction, networks: networks, transport: .icmp) : nil
    }
}

/// The access of a client's address, or of a network behind a client.
package struct ClientAccess: Hashable, Sendable {
    /// The rules of both directions.
    package var rules: [AccessRule]
    /// The further tunnel that leads to the client; `nil` for the first tunnel.
    package var tunnel: String?
    /// All addresses and networks of the client, if it has more than this one. An ICMP error from one of them may be
    /// about a flow of any of them.
    package var prefixes: [IPPrefix]

    package init(rules: [AccessRule] = [], tunnel: String? = nil, prefixes: [IPPrefix] = []) {
        (self.rules, self.tunnel, self.prefixes) = (rules, tunnel, prefixes)
    }
}
