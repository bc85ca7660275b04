// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO
public import WireGuardDevice

/// The parts of the system that a provider uses. A test or an app can replace each.
public struct WireGuardEnvironment: Sendable {
    /// The source of UDP sockets.
    public var network: any DatagramNetwork = SystemDatagramNetwork()
    /// The resolver of host names.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The memory that all is sized from; nil for a server with memory to spare.
    public var budget: MemoryBudget? = .extension
    /// The threads of the data path, and the sizes of its lanes if they are not those of the budget.
    public var dataPath = DataPathOptions()
    /// The path of the socket that serves `wg`, or `nil` for no socket. `wg` expects it at
    /// ``ManagementSocket/path(forInterface:)``. Apps do not need it.
    package var managementSocket: String?
    /// Where keys, indices, nonces and jitter come from; cryptographically secure outside of tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }

    /// The system's.
    public init() {}
}
