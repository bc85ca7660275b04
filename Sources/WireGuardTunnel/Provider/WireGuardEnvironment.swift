// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO
public import WireGuardDevice

/// The parts of the system that a provider uses. A test or an app can replace each.
public struct WireGuardEnvironment: Sendable {
    /// The source of UDP sockets.
    public var network: any DatagramNetwork
    /// The resolver of host names.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The memory budget that determines all sizes; `nil` for a server with ample memory.
    public var budget: MemoryBudget? = .extension
    /// The threads of the data path, and the sizes of its lanes if they differ from the budget's.
    public var dataPath = DataPathOptions()
    /// The path of the socket that serves `wg`, or `nil` for no socket. `wg` expects it at
    /// ``ManagementSocket/path(forInterface:)``. Apps do not need it.
    package var managementSocket: String?
    /// Makes the generator for keys, indices, nonces and jitter; it must be cryptographically secure outside of tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }

    /// Makes the system's environment, or one with another source of UDP sockets.
    public init(network: any DatagramNetwork = SystemDatagramNetwork()) { self.network = network }
}
