// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
package import NetworkAddresses

/// Where a request came from.
package enum RequestSource: Hashable, Sendable {
    /// Another host, or this one.
    case address(IPAddress)
    /// A process of this host, through the Unix socket, and its user.
    case process(user: UInt32)
    /// Nobody says.
    case unknown

    init(_ address: SocketAddress?) {
        guard let text = address?.ipAddress, let value = try? IPAddress(text) else {
            self = .unknown
            return
        }
        self = .address(value.unmapped)
    }

    /// The address, where there is one.
    package var address: IPAddress? {
        guard case .address(let address) = self else { return nil }
        return address
    }

    /// Whether the request came from this host.
    package var isLocal: Bool {
        switch self {
        case .address(let address): address.isLoopback
        case .process: true
        case .unknown: false
        }
    }

    /// The source whose requests are counted together: the network of an address (``NetworkAddresses/IPAddress/sourceNetwork``).
    package var network: RequestSource {
        guard case .address(let address) = self else { return self }
        return .address(address.sourceNetwork.address)
    }
}
