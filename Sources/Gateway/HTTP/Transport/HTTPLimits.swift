// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The limits of one listener for requests and connections. They apply before the caller is known.
package struct HTTPLimits: Hashable, Sendable {
    /// The number of concurrent connections of all sources together.
    package var connections = 4096
    /// The number of concurrent connections of one source.
    package var connectionsOfOneSource = 256
    /// The bytes of one header field, and of all header fields together.
    package var headerField = 4096
    package var headerList = 16_384
    package var headerCount = 64
    /// The bytes of a request's body.
    package var body = 65_536
    /// The time from the start of a connection, or from the previous response, until a request's whole head was
    /// received. It includes the TLS handshake.
    package var head = Duration.seconds(10)
    /// The time for receiving the body.
    package var upload = Duration.seconds(10)
    /// The time for the handler.
    package var work = Duration.seconds(20)
    /// The time in which the client must receive the answer, or each part of an answer that is sent in parts.
    package var download = Duration.seconds(30)
    /// The time for which a connection stays open after its last response, so that the client can receive it.
    package var lingering = Duration.seconds(2)
    /// The time without a failure to accept connections after which a listener is in order again.
    package var recovery = Duration.seconds(5)

    package init() {}

    /// The descriptors that are reserved for the tunnels, the database and runs of nft.
    package static let reservedDescriptors = 256
    /// The least number of connections of a listener, however few descriptors there are.
    private static let fewestConnections = 8

    /// The limits of each listener of a process.
    /// - Parameter descriptors: The number of descriptors that the process may have.
    package init(descriptors: Int, listeners: Int) {
        let share = (descriptors - Self.reservedDescriptors) / max(listeners, 1)
        connections = min(connections, max(share, Self.fewestConnections))
        connectionsOfOneSource = min(connectionsOfOneSource, connections / 4)
    }
}
