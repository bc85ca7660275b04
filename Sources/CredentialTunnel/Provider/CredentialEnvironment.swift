// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import TunnelIO

/// The parts of the machine that a provider uses: the system's, unless a test or an app replaces them.
public struct CredentialEnvironment: Sendable {
    /// The source of UDP sockets.
    public var network: any DatagramNetwork = SystemDatagramNetwork()
    /// The resolver of the server's name.
    public var resolver: any EndpointResolver = SystemEndpointResolver()
    /// The threads and the sizes of the data path. The default has room in an app extension.
    public var dataPath = DataPathOptions(
        lane: LaneConfiguration(
            packetCount: 64, packetBytes: 192 << 10, datagramCount: 128,
            datagramBytes: 8 * LaneConfiguration.datagramSlotBytes))
    /// The source of keys and indices; cryptographically secure outside tests.
    public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    /// When keys are renewed, and how long a login may take.
    package var timing = SessionTiming()

    /// The system's.
    public init() {}
}
