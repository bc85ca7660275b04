// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
package import PacketTunnelLinux
package import TunnelIO
package import TunnelServer

/// A snapshot of a running gateway for `status` and the metrics.
package struct RuntimeFigures: Sendable {
    /// Whether the gateway serves WireGuard. If not, there are no peers, and WireGuard's counters are zero.
    package var servesWireGuard = true
    /// Devices that are peers.
    package var peers = 0
    /// The devices with a handshake in the last three minutes, the lifetime of a session.
    package var online = 0
    /// The bytes of the current peers' datagrams, received and sent.
    package var received: UInt64 = 0
    package var sent: UInt64 = 0
    /// Handshakes since the start.
    package var handshakes: UInt64 = 0
    /// Packets and datagrams that were not passed on, by cause.
    package var drops = DropCounters()
    /// The packets that wait for a session of their peer, and the handshake messages that wait to be sent.
    package var waitingPackets = 0
    package var waitingMessages = 0
    package var network = NetworkState()
    /// The number of the last change in the store that is in effect.
    package var sequence: Int64 = 0
    /// Whether all devices of the store are applied, except for excluded ones.
    package var isCurrent = false
    package var readiness = Readiness()
    /// The rounds since the start, and those of them that failed.
    package var rounds = 0
    package var failedRounds = 0
    /// The UDP port; `nil` while the tunnel does not listen.
    package var port: UInt16?
    /// The figures of the login tunnel; `nil` if it is not served.
    package var login: LoginFigures?

    package init() {}
}

/// The state that `/ready` reports.
package struct Readiness: Hashable, Sendable {
    /// Whether the last round of changes was applied, no round has been in progress for more than a second, and packets
    /// are forwarded.
    package var isReady: Bool
    /// The parts of the gateway that are not in effect.
    package var problems: [NetworkProblem]
    /// The devices that are excluded because the kernel or WireGuard refuses a value. The other devices are served.
    package var exclusions: [NetworkProblem]
    /// The ends of access that are in effect but not saved, and the failure of a database that refuses writes. Devices
    /// are served.
    package var unsaved: [NetworkProblem] = []
    /// The listeners of the API that accept no connections. Devices are served.
    package var listeners: [NetworkProblem] = []

    package init(isReady: Bool = true, problems: [NetworkProblem] = [], exclusions: [NetworkProblem] = []) {
        (self.isReady, self.problems, self.exclusions) = (isReady, problems, exclusions)
    }
}

/// A snapshot of the login tunnel.
package struct LoginFigures: Sendable {
    package var sessions = 0
    /// Logins since the start.
    package var accepted = 0
    package var refused = 0
    /// The bytes of IP packets since the start, received and sent.
    package var received = 0
    package var sent = 0
    /// Packets and datagrams that were not passed on, by cause.
    package var drops = DropCounters()
    /// The UDP port; `nil` while the tunnel does not listen.
    package var port: UInt16?

    init(_ statistics: ServerDeviceStatistics, drops: DropCounters, port: UInt16?) {
        sessions = statistics.sessions
        accepted = statistics.accepted
        refused = statistics.refused
        received = statistics.moved.receivedBytes
        sent = statistics.moved.sentBytes
        self.drops = drops
        self.port = port
    }
}
