// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO

/// What a provider uses of the machine: the system's, unless a test or an app says otherwise.
public struct CredentialEnvironment: Sendable {
    /// Where UDP sockets come from.
    public var network: any DatagramNetwork = SystemDatagramNetwork()
    /// Who resolves the server's name.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The threads and the sizes of the data path. The default has room in an app extension.
    public var dataPath = DataPathOptions(
        lane: LaneConfiguration(
            packetCount: 64, packetBytes: 192 << 10, datagramCount: 128,
            datagramBytes: 8 * LaneConfiguration.datagramSlotBytes))
    /// Where keys and indices come from; cryptographically secure outside of tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    /// When keys are renewed, and how long a login may take.
    package var timing = SessionTiming()

    /// The system's.
    public init() {}
}
