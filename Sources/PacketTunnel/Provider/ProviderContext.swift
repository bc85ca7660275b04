// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import NetworkAddresses

/// The services of a host for one start of a provider. All of it may be used from any task, and does nothing, or throws
/// `.notRunning`, after the tunnel ends.
public struct ProviderContext: Sendable {
    /// The packets of the tunnel, after settings were applied.
    public let packetFlow: PacketFlow
    /// The log of the provider, which must never contain a secret.
    public let logger: Logger
    /// The time. Deadlines and intervals are slept on it, so that tests decide when they pass.
    public let clock: any Clock<Duration>
    /// The way to the network when the tunnel started; later ones arrive through
    /// ``PacketTunnelProvider/pathChanged(_:)``.
    public let path: NetworkPath
    /// The least that the tunnel's profile demands; the host applies the stricter of this and the settings'.
    public let leakPolicy: LeakPolicy
    /// The mark that the provider's own sockets need (`SO_MARK` on Linux) to bypass the tunnel's routes and leak guard; `nil`
    /// if they need none.
    public let socketMark: UInt32?

    private let host: any ProviderHost

    /// A context that passes calls on to `host`.
    package init(
        packetFlow: PacketFlow, logger: Logger, clock: any Clock<Duration>, path: NetworkPath, leakPolicy: LeakPolicy,
        socketMark: UInt32? = nil, host: any ProviderHost
    ) {
        self.packetFlow = packetFlow
        self.logger = logger
        self.clock = clock
        self.path = path
        self.leakPolicy = leakPolicy
        self.socketMark = socketMark
        self.host = host
    }

    /// The context with another host in between: for a provider that runs another one.
    package func passing(through host: any ProviderHost) -> ProviderContext {
        ProviderContext(
            packetFlow: packetFlow, logger: logger, clock: clock, path: path, leakPolicy: leakPolicy,
            socketMark: socketMark, host: host)
    }

    /// Applies settings in place of the previous ones. Returns when they are in effect.
    ///
    /// Calls are carried out one after the other.
    /// - Throws: `.settingsInvalid`, `.settingsFailed`, `.settingsTimedOut`, `.notRunning`. After `.settingsFailed` the
    ///   previous settings are in effect as far as the host could keep them; after `.settingsTimedOut` that is unknown, and
    ///   the provider must apply settings again or fail.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) {
        try await host.apply(settings)
    }

    /// Says whether the tunnel carries nothing for the present and is working on that. Before the start succeeded it
    /// decides which status comes after.
    public func setReasserting(_ isReasserting: Bool) {
        host.setReasserting(isReasserting)
    }

    /// Ends the tunnel because of a failure that the provider cannot mend. The host then stops the provider.
    public func cancel(_ error: TunnelError) {
        host.cancel(error)
    }

    /// Returns the present name servers of the network outside the tunnel, for resolving the name of the tunnel's own server,
    /// over sockets with ``socketMark``. Empty if the host does not know them.
    public func outsideNameServers() async -> [IPAddress] {
        await host.outsideNameServers()
    }

    /// A secret of the tunnel's profile.
    /// - Throws: `.secretUnavailable`.
    public func secret(_ name: String) async throws(TunnelError) -> SecretBytes {
        try await host.secret(name)
    }

    /// Stores a secret of the tunnel's profile, in place of the previous one: for example an assignment of a server, or a
    /// generated key, for later starts.
    /// - Throws: `.secretUnavailable`, `.storage`.
    public func keepSecret(_ secret: SecretBytes, _ name: String) async throws(TunnelError) {
        try await host.keepSecret(secret, name)
    }
}

/// The host's side of a ``ProviderContext``.
package protocol ProviderHost: Sendable {
    func apply(_ settings: TunnelSettings) async throws(TunnelError)
    func setReasserting(_ isReasserting: Bool)
    func cancel(_ error: TunnelError)
    func secret(_ name: String) async throws(TunnelError) -> SecretBytes
    func keepSecret(_ secret: SecretBytes, _ name: String) async throws(TunnelError)
    func outsideNameServers() async -> [IPAddress]
}
