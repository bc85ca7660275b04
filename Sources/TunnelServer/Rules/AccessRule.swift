// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// What becomes of some flows of a client. Of a list of rules the first that fits decides.
package struct AccessRule: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable, Codable, CaseIterable { case allow, deny }

    package enum Transport: String, Hashable, Sendable, Codable, CaseIterable {
        /// Any protocol; where ports are named, TCP and UDP.
        case any
        case tcp, udp
        /// ICMP of both families.
        case icmp
    }

    package let action: Action
    /// Who is at the other end; empty is anybody.
    package let networks: [IPPrefix]
    package let transport: Transport
    /// Ports at the end that the flow goes to; empty is all of them.
    package let ports: [ClosedRange<UInt16>]

    /// - Returns: nil for ports of ICMP, which has none.
    package init?(
        _ action: Action, networks: [IPPrefix] = [], transport: Transport = .any, ports: [ClosedRange<UInt16>] = []
    ) {
        guard transport != .icmp || ports.isEmpty else { return nil }
        self.action = action
        self.networks = networks
        self.transport = transport
        self.ports = ports
    }
}

/// The rules of a client.
package struct ClientRules: Hashable, Sendable {
    /// What the client may begin, before the policy that holds for all clients is asked.
    package var from: [AccessRule]
    /// What may begin towards the client: `networks` are where it comes from. Nothing else does.
    package var towards: [AccessRule]

    /// None: the policy that holds for all clients, and nothing begins towards the client.
    package init(from: [AccessRule] = [], towards: [AccessRule] = []) {
        self.from = from
        self.towards = towards
    }
}

/// The access of a client's address, or of a network behind a client.
package struct ClientAccess: Hashable, Sendable {
    package var rules: ClientRules
    /// The further tunnel that leads to the client; `nil` for the first tunnel.
    package var tunnel: String?

    package init(rules: ClientRules, tunnel: String? = nil) { (self.rules, self.tunnel) = (rules, tunnel) }
}
