// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What one listener takes from whoever connects, before anybody has said who they are.
package struct HTTPLimits: Hashable, Sendable {
    /// Connections at once, all sources together.
    package var connections = 4096
    /// The part of these connections that one source may have.
    package var connectionsOfOneSource = 256
    /// Bytes of one header field, and of all of them.
    package var headerField = 4096
    package var headerList = 16_384
    package var headerCount = 64
    /// Bytes of a request's body.
    package var body = 65_536
    /// How long a connection may take from its beginning, or from the response before, to a request's whole head. TLS's
    /// handshake is part of it.
    package var head = Duration.seconds(10)
    /// How long the body may take.
    package var upload = Duration.seconds(10)
    /// How long an answer is worked at.
    package var work = Duration.seconds(20)
    /// How long reading the answer may take.
    package var download = Duration.seconds(30)
    /// How long a connection lasts that is to end, so that its last response is read first.
    package var lingering = Duration.seconds(2)

    package init() {}

    /// The descriptors that are left for the tunnels, the database and runs of nft.
    package static let reservedDescriptors = 256
    /// The connections of a listener, however few descriptors there are.
    private static let fewestConnections = 8

    /// The limits of each listener of a process.
    /// - Parameter descriptors: The number of descriptors that the process may have.
    package init(descriptors: Int, listeners: Int) {
        let share = (descriptors - Self.reservedDescriptors) / max(listeners, 1)
        connections = min(connections, max(share, Self.fewestConnections))
        connectionsOfOneSource = min(connectionsOfOneSource, connections / 4)
    }
}
