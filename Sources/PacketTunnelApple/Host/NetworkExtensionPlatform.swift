// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import Network
import NetworkAddresses
import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelIO

/// Applies settings through the system's tunnel provider.
///
/// The system undoes everything when the tunnel ends, even after a crash. It blocks packets according to the profile's
/// switches, which a running tunnel cannot change. So the platform refuses a policy that the profile does not contain.
@safe
final class NetworkExtensionPlatform: TunnelPlatform, @unchecked Sendable {
    private struct State {
        var tun: PacketFlowTun?
        var other: (any TunDevice)?
        var reader: PacketFlowReader?
    }

    // The system's documentation states: "Instances of this class are thread safe". The provider outlives its tunnels.
    private weak let provider: NEPacketTunnelProvider?
    private let options: NetworkExtensionOptions
    private let state = Mutex(State())

    init(_ provider: NEPacketTunnelProvider, _ options: NetworkExtensionOptions) {
        self.provider = provider
        self.options = options
    }

    /// The name of the interface; it is known once settings are applied.
    var interfaceName: String? { provider?.virtualInterface?.name }

    /// `nil`: the system keeps the tunnel's own sockets out of the tunnel.
    var socketMark: UInt32? { nil }

    /// Empty, because they are not known.
    func outsideNameServers() async -> [IPAddress] { [] }

    func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try check(policy)
    }

    private func requireProvider() throws(TunnelError) -> NEPacketTunnelProvider {
        guard let provider else { throw TunnelError(.hostFailed, "the system has released the tunnel") }
        return provider
    }

    private func check(_ policy: LeakPolicy) throws(TunnelError) {
        let configuration = try requireProvider().protocolConfiguration
        guard policy > configuration.leakPolicy else { return }
        throw TunnelError(
            .configurationInvalid,
            "the leak policy '\(policy.rawValue)' is wanted, and the system's profile holds back for "
                + "'\(configuration.leakPolicy.rawValue)' only", fix: "save the profile with this policy")
    }

    func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        try check(settings.leakPolicy)
        let configuration = try requireProvider().protocolConfiguration
        if !configuration.leakPolicy.leavesDecisionToRoutes, configuration.excludeLocalNetworks,
            !settings.allowsLocalNetwork
        {
            throw TunnelError(
                .configurationInvalid, "the system's profile leaves out local networks, and the settings do not",
                fix: "save the profile without 'allowsLocalNetwork', or allow it in the settings")
        }
        try await requireProvider().apply(settings.makeNetworkExtensionSettings())
        // The caller no longer waits.
        if Task.isCancelled { throw NETunnelProvider.cancelled }
        do throws(TunnelIOError) {
            return try device(mtu: settings.effectiveMTU())
        } catch {
            throw TunnelError(.hostFailed, error.description)
        }
    }

    private func device(mtu: Int) throws(TunnelIOError) -> any TunDevice {
        if let other = state.withLock({ $0.other }) { return other }
        if let tun = state.withLock({ $0.tun }) {
            tun.setMTU(mtu)
            return tun
        }
        switch options.packetAccess {
        case .descriptor:
            let device = try options.openDescriptor(interfaceName)
            state.withLock { $0.other = device }
            return device
        case .packetFlow:
            guard let provider else { throw TunnelIOError(.closed) }
            let reader = state.withLock { state in
                let reader = state.reader ?? PacketFlowReader(provider.packetFlow)
                state.reader = reader
                return reader
            }
            let tun = try PacketFlowTun(
                reader, name: interfaceName ?? "utun", mtu: mtu, packetCapacity: options.packetCapacity,
                byteCapacity: options.byteCapacity
            ) { [logger = options.logger] in logger.warning("\($0)") }
            state.withLock { $0.tun = tun }
            tun.start()
            return tun
        }
    }

    /// Releases the interface. The settings stay in effect until the system ends the tunnel; meanwhile packets into it
    /// are dropped.
    func tearDown(leavingBlocked: Bool) async {
        let (tun, other) = state.withLock { state in
            defer { (state.tun, state.other) = (nil, nil) }
            return (state.tun, state.other)
        }
        tun?.close()
        other?.close()
    }
}

extension NEVPNProtocol {
    /// The packets that the system blocks for this configuration.
    var leakPolicy: LeakPolicy {
        // With `includeAllNetworks`, the system ignores `enforceRoutes`.
        LeakPolicy.allCases.first { policy in
            policy.routesEverything == includeAllNetworks
                && (includeAllNetworks || policy.refusesTunnelledOnly == enforceRoutes)
        } ?? .everything
    }

    /// Makes the system block packets according to `policy`.
    /// - Parameter allowsLocalNetwork: Whether attached networks are reached directly.
    func hold(_ policy: LeakPolicy, allowsLocalNetwork: Bool) {
        includeAllNetworks = policy.routesEverything
        enforceRoutes = policy.refusesTunnelledOnly
        excludeLocalNetworks = allowsLocalNetwork
    }
}
