// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel
package import TunnelIO

/// The options of a ``NetworkExtensionHost``.
public struct NetworkExtensionOptions: Sendable {
    /// The way the host reads and writes packets.
    public enum PacketAccess: Hashable, Sendable {
        /// Through the system's packet flow, which is the documented way.
        case packetFlow
        /// Through the descriptor of the utun interface, which is not documented.
        ///
        /// The descriptor is used only if the interface's name proves that it belongs to this tunnel; otherwise the
        /// start fails.
        case descriptor
    }

    /// The way the host reads and writes packets.
    public var packetAccess = PacketAccess.packetFlow
    /// The maximum number of packets that one read passes to the provider. The system decides how many packets it
    /// delivers. If there are more, they are passed in several reads, and none is dropped. While packets wait, no more
    /// are requested, so the system's own queue fills and applies backpressure.
    public var packetCapacity = 256
    /// The maximum number of bytes of those packets, at least 65,536.
    public var byteCapacity = 1 << 18
    /// The time limits of a tunnel's operations.
    public var deadlines = TunnelDeadlines()
    /// The clock of the deadlines. It should also advance while the device sleeps.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// The log of the host and its providers.
    public var logger = Logger(label: "tunnel")
    /// The file that ``logger`` writes to, for apps that request lines from the tunnel (`LogRequest`,
    /// `LogSubscription`); `nil` if it writes to no file. ``keep(_:)`` sets both.
    public var log: RingLogFile?
    /// The store of the profiles' secrets, or `nil` if the start options contain everything.
    public var secrets: (any SecretStore)?
    /// The store of profiles that start without the app, on demand; `nil` if the provider's configuration contains the
    /// profiles.
    public var profiles: (any ReferencedProfiles)?
    /// Reads a configuration that has no profile of this package yet, for a start on demand after the app was updated and
    /// before it runs. Give app and extension the same function. `nil` refuses such a start. A secret that
    /// the provider keeps during such a start is lost.
    public var adoptConfiguration: NetworkExtensionManagerOptions.Adopt?
    /// Whether the provider is notified of the system's network changes.
    public var watchesPath = true

    /// Makes the interface for a descriptor. Tests replace it.
    package var openDescriptor: @Sendable (String?) throws(TunnelIOError) -> any TunDevice = SystemTun
        .openSystemInterface
    /// Wraps the platform, for tests.
    package var wrapPlatform: @Sendable (any TunnelPlatform) -> any TunnelPlatform = { $0 }

    /// The defaults.
    public init() {}
}

/// Profiles, by the reference in a system's configuration, which is the persistent reference of a keychain item.
public protocol ReferencedProfiles: Sendable {
    /// The profile of a reference.
    /// - Throws: `.configurationInvalid`, `.secretUnavailable`.
    func profile(reference: [UInt8]) throws(TunnelError) -> TunnelProfile
}
