// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelIO
package import WireGuardCore

// The core and the I/O layer do not know each other; here their endpoints are the same thing.

extension Endpoint {
    /// The endpoint that a datagram came from.
    @inline(__always)
    package init(_ datagram: DatagramEndpoint) {
        let address =
            datagram.isIPv6
            ? IPAddress(v6High: datagram.high, low: datagram.low)
            : IPAddress(v4: UInt32(truncatingIfNeeded: datagram.low))
        self.init(
            address: address, port: datagram.port, scopeID: datagram.scopeID,
            source: EndpointSource(
                interfaceIndex: datagram.sourceInterface, high: datagram.sourceHigh, low: datagram.sourceLow))
    }
}

extension DatagramEndpoint {
    /// The endpoint that a datagram goes to.
    @inline(__always)
    init(_ endpoint: Endpoint) {
        self.init(
            isIPv6: endpoint.address.family == .v6, high: endpoint.address.high, low: endpoint.address.low,
            port: endpoint.port, scopeID: endpoint.scopeID, sourceInterface: endpoint.source.interfaceIndex,
            sourceHigh: endpoint.source.high, sourceLow: endpoint.source.low)
    }
}
