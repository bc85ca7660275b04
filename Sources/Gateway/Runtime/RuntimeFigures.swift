// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardDevice

/// What there is to see of a running gateway.
package struct RuntimeFigures: Sendable {
    /// Devices that are peers.
    package var peers = 0
    /// Those with a handshake in the last three minutes, after which a session is over.
    package var online = 0
    /// Datagrams' bytes since the start.
    package var received: UInt64 = 0
    package var sent: UInt64 = 0
    /// Handshakes since the start.
    package var handshakes: UInt64 = 0
    /// Packets and datagrams that were not passed on, by cause.
    package var drops = DropCounters()
    package var network = NetworkCondition()
    /// The last change of the store that is in force.
    package var sequence: Int64 = 0
    /// Whether everything that the store has is in force, as far as is known.
    package var isCurrent = false
    /// The UDP port; nil while the tunnel does not listen.
    package var port: UInt16?

    package init() {}
}
