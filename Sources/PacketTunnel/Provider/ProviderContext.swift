// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import NetworkAddresses

/// The host's services for one start of a provider. Any task may use them. After the tunnel has ended, they do nothing
/// or throw `.notRunning`.
public struct ProviderContext: Sendable {
    /// The packets of the tunnel. It is usable once settings are applied.
    public let packetFlow: PacketFlow
    /// The log of the provider, which must never contain a secret.
    public let logger: Logger
    /// The clock for deadlines and intervals. A test can control it.
    public let clock: any Clock<Duration>
    /// The network path when the tunnel started. Later paths are passed to ``PacketTunnelProvider/pathChanged(_:)``.
    public let path: NetworkPath
    /// The least strict leak policy that the profile permits. The host applies the stricter one of this and the
    /// settings' policy.
    public let leakPolicy: LeakPolicy
    /// The mark that the provider's own sockets need (`SO_MARK` on Linux) to bypass the tunnel's routes and leak guard; `nil`
    /// if they need none.
    public let socketMark: UInt32?
    /// The options of ``TunnelManager/start(_:options:)``. They apply to one start: `nil` if the app gave none, and if the
    /// tunnel was started on demand or from the system's settings.
    public let startOptions: [String: JSONValue]?

    private let host: any ProviderHost

    /// A context that passes calls on to `host`.
    package init(
        packetFlow: PacketFlow, logger: Logger, clock: any Clock<Duration>, path: NetworkPath, leakPolicy: LeakPolicy,
        socketMark: UInt32? = nil, startOptions: [String: JSONValue]? = nil, host: any ProviderHost
    ) {
        self.packetFlow = packetFlow
        self.logger = logger
        self.clock = clock
        self.path = path
        self.leakPolicy = leakPolicy
        self.socketMark = socketMark
        self.startOptions = startOptions
        self.host = host
    }

    /// Returns a copy of the context with another host, for a provider that runs another provider.
    package func passing(through host: any ProviderHost) -> ProviderContext {
        ProviderContext(
            packetFlow: packetFlow, logger: logger, clock: clock, path: path, leakPolicy: leakPolicy,
            socketMark: socketMark, startOptions: startOptions, host: host)
    }

    /// Applies settings and replaces the previous ones. Returns when they are in effect.
    ///
    /// Calls are executed one after the other.
    /// - Throws: `.settingsInvalid`, `.settingsFailed`, `.settingsTimedOut`, `.notRunning`. After `.settingsFailed` the
    ///   previous settings are in effect as far as the host could keep them. After `.settingsTimedOut` the settings in
    ///   effect are not known, and the provider must apply settings again or fail.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) {
        try await host.apply(settings)
    }

    /// Reports whether the tunnel currently carries nothing while the provider tries to restore it. Before the start
    /// has succeeded, this determines the status after the start.
    public func setReasserting(_ isReasserting: Bool) {
        host.setReasserting(isReasserting)
    }

    /// Ends the tunnel because of an error that the provider cannot recover from. The host then stops the provider.
    public func cancel(_ error: TunnelError) {
        host.cancel(error)
    }

    /// Returns the current name servers of the network outside the tunnel, or an empty list if the host does not know
    /// them. The provider resolves the name of the tunnel's server with them, over sockets with ``socketMark``.
    public func outsideNameServers() async -> [IPAddress] {
        await host.outsideNameServers()
    }

    /// Returns a secret of the tunnel's profile.
    /// - Throws: `.secretUnavailable`.
    public func secret(_ name: String) async throws(TunnelError) -> SecretBytes {
        try await host.secret(name)
    }

    /// Stores a secret of the tunnel's profile for later starts, such as a server's assignment or a generated key, and
    /// replaces the previous one.
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
