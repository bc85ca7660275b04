// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CEchoProtocol
import Foundation
public import NetworkAddresses
public import PacketTunnel
public import PacketTunnelApple

/// A tunnel whose protocol is written in C.
public actor CTunnel: PacketTunnelProvider {
    /// The settings of the tunnel, stored in profiles as JSON.
    public struct Configuration: Codable, Sendable {
        /// The interface's address, and the network behind the tunnel.
        public var address: InterfaceAddress

        /// Settings.
        public init(address: InterfaceAddress) { self.address = address }
    }

    private var packets: LeasedDescriptor?

    /// A tunnel that has not started.
    public init() {}

    /// Applies the network settings and passes the packets to the protocol.
    public func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [InterfaceAddress(host: configuration.address.address)],
                includedRoutes: [configuration.address.network]))
        let packets = try context.packetFlow.leaseDescriptor()
        let result = start_tun(packets.number)
        guard result == 0 else {
            packets.close()
            throw TunnelError(.providerFailed, "the protocol cannot use the descriptor: error \(result)")
        }
        self.packets = packets
    }

    /// Ends the protocol, and then the descriptor that it uses.
    public func stop(_ reason: StopReason) async {
        stop_tun()
        packets?.close()
        packets = nil
    }
}

/// The principal class of the extension.
public final class CTunnelHost: NetworkExtensionHost<CTunnel>, @unchecked Sendable {
    /// Profiles come from the keychain that the app shares, and packets through the system's packet flow. The interface's
    /// own descriptor (`packetAccess = .descriptor`) is faster, but Apple does not document it.
    public override var options: NetworkExtensionOptions {
        .standard(accessGroup: Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String)
    }
}
