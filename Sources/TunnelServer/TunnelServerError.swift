// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnelLinux
package import TunnelIO

/// The reason that a server's network could not be set up or changed.
package enum TunnelServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The host refused a change of addresses, settings or firewall.
    case network(LinuxNetworkError)
    /// The tunnel's interface could not be made.
    case interface(TunnelIOError)
    /// Another process has the interface of this name.
    case interfaceTaken(String)
    /// A network cannot be behind a client.
    case subnet(IPPrefix, String)
    /// nft or the kernel refuses a client's rules, or its address or network.
    case refused(IPPrefix, String)
    /// The network has not been started, or was stopped.
    case notRunning

    /// The problem and its remedy.
    package var description: String {
        switch self {
        case .network(let error): error.description
        case .interface(let error): error.description
        case .interfaceTaken(let name):
            "another gateway or tunnel has the interface \(name); stop it, or set another 'interface' in gateway.json"
        case .subnet(let network, let reason): "\(network) cannot be behind a client: \(reason)"
        case .refused(let client, let reason): "the system refuses \(client) or its rules: \(reason)"
        case .notRunning: "the server's network is not up"
        }
    }
}
