// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// What a device may reach, or who may reach it. Rules have an order; the first that fits counts, those of the device before
/// those of its user.
package struct Rule: Hashable, Sendable {
    package enum Owner: Hashable, Sendable {
        case user(UserID)
        case device(DeviceID)
    }

    package let id: RuleID
    package let owner: Owner
    package var content: RuleContent

    package init(id: RuleID, owner: Owner, content: RuleContent) {
        self.id = id
        self.owner = owner
        self.content = content
    }
}

/// What a rule says.
package struct RuleContent: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable { case allow, deny }
    package enum Transport: String, Hashable, Sendable, CaseIterable { case any, tcp, udp, icmp }
    package enum Direction: String, Hashable, Sendable, CaseIterable {
        /// From the device to these networks.
        case out
        /// From these networks to the device.
        case `in`
    }

    package var action: Action
    package var direction: Direction
    /// Empty: any.
    package var networks: [IPPrefix]
    package var transport: Transport
    /// Of the destination; empty: any. For `tcp` and `udp` alone.
    package var ports: [ClosedRange<UInt16>]
    package var notes: String

    package init(
        _ action: Action, direction: Direction = .out, networks: [IPPrefix] = [], transport: Transport = .any,
        ports: [ClosedRange<UInt16>] = [], notes: String = ""
    ) {
        self.action = action
        self.direction = direction
        self.networks = networks
        self.transport = transport
        self.ports = ports
        self.notes = notes
    }
}
