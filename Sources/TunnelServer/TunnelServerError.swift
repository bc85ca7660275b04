// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnelLinux
package import TunnelIO

/// Why a server's network could not be set up or changed.
package enum TunnelServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The host refused a change of addresses, settings or firewall.
    case network(LinuxNetworkError)
    /// The tunnel's interface could not be made.
    case interface(TunnelIOError)
    /// The network has not been started, or was stopped.
    case notRunning

    /// What it is, and what to do.
    package var description: String {
        switch self {
        case .network(let error): error.description
        case .interface(let error): error.description
        case .notRunning: "the server's network is not up"
        }
    }
}
