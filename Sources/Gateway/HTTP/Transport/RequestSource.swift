// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
package import NetworkAddresses

/// The origin of a request.
package enum RequestSource: Hashable, Sendable {
    /// An address of another host or of this one.
    case address(IPAddress)
    /// The user of a process of this host that uses the Unix socket.
    case process(user: UInt32)
    /// The origin is not known.
    case unknown

    init(_ address: SocketAddress?) {
        guard let text = address?.ipAddress, let value = try? IPAddress(text) else {
            self = .unknown
            return
        }
        self = .address(value.unmapped)
    }

    /// The address; `nil` for other sources.
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

    /// The source by which requests are counted: for an address, its network
    /// (``NetworkAddresses/IPAddress/sourceNetwork``).
    package var network: RequestSource {
        guard case .address(let address) = self else { return self }
        return .address(address.sourceNetwork.address)
    }
}
