// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import Provisioning
import WireGuardTunnel

extension LeakPolicyName: ExpressibleByArgument {}

/// The options for traffic outside a tunnel. The command `up` and those that add profiles have them; those of `up`
/// override a profile's.
struct LeakPolicyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The traffic that may leave outside the tunnel: route-based, enforced or everything.", valueName: "policy")
    )
    var leakPolicy: LeakPolicyName?

    @Flag(
        inversion: .prefixedNo,
        help: "Reach the local network directly with any policy (the default).")
    var localNetwork: Bool?

    @Option(
        name: .customLong("allow-network"),
        help: ArgumentHelp(
            "A network that is reached outside the tunnel with any policy; repeatable, adds to a profile's.",
            valueName: "network"),
        transform: Self.network)
    var allowedNetworks: [IPPrefix] = []

    func apply(to configuration: inout WireGuardTunnelConfiguration) {
        apply(
            &configuration.leakPolicy, &configuration.allowsLocalNetwork, &configuration.allowedNetworks)
    }

    func apply(to configuration: inout CredentialTunnelConfiguration) {
        apply(
            &configuration.leakPolicy, &configuration.allowsLocalNetwork, &configuration.allowedNetworks)
    }

    func apply(to configuration: inout EnrolledTunnelConfiguration) {
        apply(
            &configuration.leakPolicy, &configuration.allowsLocalNetwork, &configuration.allowedNetworks)
    }

    private func apply(_ policy: inout LeakPolicy, _ allowsLocal: inout Bool, _ networks: inout [IPPrefix]) {
        if let leakPolicy { policy = leakPolicy.policy }
        if let localNetwork { allowsLocal = localNetwork }
        for network in allowedNetworks where !networks.contains(network) { networks.append(network) }
    }

    /// Parses a network. Refuses bits after its prefix, since either the network or the one address could be meant.
    private static func network(_ text: String) throws -> IPPrefix {
        let interface: InterfaceAddress
        do throws(AddressTextError) { interface = try InterfaceAddress(text) } catch {
            throw ValidationError("'\(text)' is not a network: \(error.reason); write 192.168.0.0/16 or fd00::/8")
        }
        let network = interface.network
        guard interface.peer == nil, network.address == interface.address else {
            throw ValidationError(
                "'\(text)' has bits set after its prefix: write \(network) or \(IPPrefix(host: interface.address))")
        }
        return network
    }
}
