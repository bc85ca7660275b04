// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel
package import TunnelIO

/// The options of a ``NetworkExtensionHost``.
public struct NetworkExtensionOptions: Sendable {
    /// The way the host reads and writes packets.
    public enum PacketAccess: Hashable, Sendable {
        /// The system's packet flow: the documented way.
        case packetFlow
        /// Through the descriptor of the utun interface, which no documentation promises.
        ///
        /// It is taken only when it is proven to be this tunnel's own, by the interface's name; otherwise the start fails.
        case descriptor
    }

    /// The way the host reads and writes packets.
    public var packetAccess = PacketAccess.packetFlow
    /// The most packets that one read passes to the provider. The system decides how many packets it delivers: more than this
    /// number are passed in pieces, and none is dropped. While packets wait, no more are requested, so that the system's own queue
    /// fills and pushes back.
    public var packetCapacity = 256
    /// The most bytes of those packets, at least 65,536.
    public var byteCapacity = 1 << 18
    /// How long the parts of a tunnel's life may take.
    public var deadlines = TunnelDeadlines()
    /// The clock of deadlines. It should continue while the device sleeps.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// The log of the host and its providers.
    public var logger = Logger(label: "tunnel")
    /// The file that ``logger`` writes to, for apps that ask the tunnel for its lines (`LogRequest`, `LogSubscription`); nil when
    /// lines go to no file. ``keep(_:)`` sets both.
    public var log: RingLogFile?
    /// The store of the profiles' secrets, or `nil` if the start options contain everything.
    public var secrets: (any SecretStore)?
    /// Where profiles are that start without the app, on demand; `nil` if they are in the provider's configuration.
    public var profiles: (any ReferencedProfiles)?
    /// Whether the provider is notified of the system's network changes.
    public var watchesPath = true

    /// Makes the interface of a descriptor; a test has its own.
    package var openDescriptor: @Sendable (String?) throws(TunnelIOError) -> any TunDevice = SystemTun
        .openSystemInterface
    /// Puts something between the runner and the platform; for tests.
    package var wrapPlatform: @Sendable (any TunnelPlatform) -> any TunnelPlatform = { $0 }

    /// The defaults.
    public init() {}
}

/// Profiles by the reference in a system's configuration: the persistent reference of a keychain item.
public protocol ReferencedProfiles: Sendable {
    /// The profile of a reference.
    /// - Throws: `.configurationInvalid`, `.secretUnavailable`.
    func profile(reference: [UInt8]) throws(TunnelError) -> TunnelProfile
}
