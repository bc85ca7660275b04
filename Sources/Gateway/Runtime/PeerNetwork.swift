// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnelLinux
package import TunnelIO
package import TunnelServer

/// The network behind the tunnels: the host with its firewall, or memory.
package protocol PeerNetwork: Sendable {
    /// Sets up the network, without peers.
    /// - Returns: The TUN devices. The caller must close them before it stops the network.
    func start() async throws(TunnelServerError) -> PeerNetworkDevices
    /// Adds, changes and removes the access of peers in one transaction. The changes are in effect when it returns.
    /// - Parameters:
    ///   - changes: The access of each changed address or network behind a peer; `nil` removes it. If it is empty, the
    ///     call repeats failed changes.
    ///   - isComplete: Whether all other addresses and networks are removed.
    ///   - released: The addresses whose former device's connections must end. If another device has one of them now,
    ///     the call returns after an attempt to end the connections.
    /// - Returns: All addresses and networks that are excluded now, each with the reason.
    func apply(
        _ changes: [IPPrefix: ClientAccess?], isComplete: Bool, released: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError]
    /// Checks networks that devices are about to get.
    /// - Throws: `.subnet` for the first that no device may get.
    func check(subnets: [IPPrefix]) async throws(TunnelServerError)
    /// Undoes all changes of the network.
    func stop() async
    /// The state of the network. Safe to read from any thread.
    var condition: NetworkState { get }
    /// The warnings for the operator: those of ``condition``, and those that are read only on request. Safe to read from any
    /// thread.
    var warnings: [String] { get }
}

extension PeerNetwork {
    package var warnings: [String] { condition.warnings }
}

/// The TUN devices that a network provides for the tunnels.
package struct PeerNetworkDevices: Sendable {
    /// The device of the first tunnel: WireGuard, or the login tunnel if WireGuard is not served.
    package var device: any TunDevice
    /// The device of the login tunnel if it is the second tunnel; `nil` in a network with one tunnel.
    package var login: (any TunDevice)?
    /// The gateway's own addresses that are configured now.
    package var addresses: [InterfaceAddress]

    package init(_ device: any TunDevice, login: (any TunDevice)? = nil, addresses: [InterfaceAddress]) {
        self.device = device
        self.login = login
        self.addresses = addresses
    }
}

/// The host: an interface, translation of addresses, and the firewall.
extension ServerNetwork: PeerNetwork {
    package func start() async throws(TunnelServerError) -> PeerNetworkDevices {
        let (device, further, settings) = try await start(isMultiQueue: LaneLayout.server.needsQueues)
        return PeerNetworkDevices(device, login: further.first, addresses: settings.addresses)
    }

    package var condition: NetworkState { state }

    package var warnings: [String] { state.warnings + [TrackedConnections.warning].compactMap(\.self) }
}

/// A network in memory. Packets go to the other side of the device, and no rule is enforced.
package struct MemoryPeerNetwork: PeerNetwork {
    private let devices: PeerNetworkDevices

    /// - Parameter login: The device of the login tunnel.
    package init(_ device: any TunDevice, login: (any TunDevice)? = nil, addresses: [InterfaceAddress]) {
        devices = PeerNetworkDevices(device, login: login, addresses: addresses)
    }

    package func start() async throws(TunnelServerError) -> PeerNetworkDevices { devices }

    package func apply(
        _: [IPPrefix: ClientAccess?], isComplete _: Bool, released _: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] { [:] }
    package func check(subnets _: [IPPrefix]) async throws(TunnelServerError) {}
    package func stop() async {}
    package var condition: NetworkState { NetworkState() }
}

extension GatewaySettings {
    /// The settings of the host's network.
    package var serverNetwork: ServerNetworkSettings {
        let first = servesWireGuard ? interface : loginTunnel.interface
        var network = ServerNetworkSettings(name: first, mtu: mtu, addresses: addresses)
        network.way4 = ipv4
        network.way6 = ipv6
        network.nameServers = dns
        network.services = services.compactMap(Self.service)
        network.answersPings = answersPings
        network.allowedNetworks = allowedNetworks
        network.otherInterfaces = otherInterfaces
        network.flowsPerSource = flowsPerSource
        if servesWireGuard && loginTunnel.isEnabled { network.furtherTunnels = [loginTunnel.interface] }
        return network
    }

    /// Parses `tcp/443`; `nil` if the text is not a service.
    private static func service(_ text: String) -> ServerNetworkSettings.Service? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let transport = ServerNetworkSettings.Service.Transport(rawValue: String(parts[0])),
            let port = UInt16(parts[1]), port > 0
        else { return nil }
        return ServerNetworkSettings.Service(transport, port)
    }
}
