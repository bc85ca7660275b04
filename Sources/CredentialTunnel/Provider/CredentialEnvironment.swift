// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO

/// The services of the machine that a provider uses; by default, the system's.
public struct CredentialEnvironment: Sendable {
    /// The network for UDP sockets.
    public var network: any DatagramNetwork = SystemDatagramNetwork()
    /// The resolver of the server's name.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The threads and sizes of the data path. The default fits in an app extension.
    public var dataPath = DataPathOptions(
        lane: LaneConfiguration(
            packetCount: 64, packetBytes: 192 << 10, datagramCount: 128,
            datagramBytes: 8 * LaneConfiguration.datagramSlotBytes))
    /// The source of keys and indices; cryptographically secure outside of tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    /// The times of key renewal and login.
    package var timing = SessionTiming()

    /// Creates an environment with the system's services.
    public init() {}
}
