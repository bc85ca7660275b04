// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO
public import WireGuardDevice

/// What a provider uses of the machine: the system's, unless a test or an app says otherwise.
public struct WireGuardEnvironment: Sendable {
    /// Where UDP sockets come from.
    public var network: any DatagramNetwork = SystemDatagramNetwork()
    /// Who resolves host names.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The memory that all is sized from; nil for a server with memory to spare.
    public var budget: MemoryBudget? = .extension
    /// The threads of the data path, and the sizes of its lanes if they are not those of the budget.
    public var dataPath = DataPathOptions()
    /// Where `wg` is served, as of a device that is configured by it; nil for nowhere. ``ManagementSocket/path(forInterface:)`` is
    /// where `wg` looks. Apps have no use for it.
    package var managementSocket: String?
    /// Where keys, indices, nonces and jitter come from; cryptographically secure outside of tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }

    /// The system's.
    public init() {}
}
