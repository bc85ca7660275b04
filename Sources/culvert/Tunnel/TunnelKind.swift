// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import Provisioning
import WireGuardCore
import WireGuardTunnel

/// The configuration of one kind of tunnel, with everything in which the kinds differ.
protocol TunnelKindConfiguration: Codable, Sendable {
    associatedtype Provider: PacketTunnelProvider where Provider.Configuration == Self

    /// The word for the provider in profiles.
    static var provider: String { get }
    /// Whether the kind is a tunnel with a login.
    static var isLogin: Bool { get }
    /// Gives a running provider another configuration; `nil` if a server decides the configuration.
    static var reconfigure: (@Sendable (Provider, Self) async throws(TunnelError) -> Void)? { get }

    var kind: TunnelKind { get }
    /// The least strict leak policy that applies.
    var leakPolicy: LeakPolicy { get set }
    /// The settings as far as they are known before the tunnel is up.
    ///
    /// They lack the settings that a server assigns to a login or a device. Until the server has assigned them, a leak
    /// policy assumes that everything is routed into the tunnel.
    var firstSettings: TunnelSettings { get }
    /// The server, as it is written; `nil` if this side does not begin the connection.
    var firstServer: String? { get }

    func validate() -> [SettingsProblem]
    /// Checks the routing table that the configuration names.
    func checkRouteTable(_ source: String) throws(CommandProblem)

    /// Adds the status of a running provider to the report of its tunnel.
    static func report(_ provider: Provider, in report: ServiceReport) async -> ServiceReport

    /// Makes the provider of an interface.
    /// - Parameter transport: sends requests to a gateway.
    static func makeProvider(
        _ environments: ProviderEnvironments, interface: String, transport: any ProvisioningTransport
    ) -> Provider
}

extension TunnelKindConfiguration {
    static var isLogin: Bool { false }
    static var reconfigure: (@Sendable (Provider, Self) async throws(TunnelError) -> Void)? { nil }

    func checkRouteTable(_ source: String) throws(CommandProblem) {}

    /// The kind of tunnel with the configuration of a profile.
    fileprivate static func kind(of profile: TunnelProfile) throws(TunnelError) -> TunnelKind {
        let configuration: Self = try profile.configuration.decode()
        return configuration.kind
    }

    /// The configuration as it is in profiles.
    fileprivate var json: JSONValue {
        get throws(TunnelError) { try JSONValue(encoding: self) }
    }
}

extension WireGuardTunnelConfiguration: TunnelKindConfiguration {
    static var provider: String { ProfileFolder.provider }
    static var reconfigure: (@Sendable (WireGuardTunnelProvider, Self) async throws(TunnelError) -> Void)? {
        { (provider, configuration) async throws(TunnelError) in try await provider.reconfigure(configuration) }
    }

    var kind: TunnelKind { .wireGuard(self) }
    var firstSettings: TunnelSettings { settings() }
    var firstServer: String? { peers.compactMap(\.endpoint?.description).first }

    static func makeProvider(
        _ environments: ProviderEnvironments, interface: String, transport: any ProvisioningTransport
    ) -> WireGuardTunnelProvider {
        WireGuardTunnelProvider(environment: environments.wireGuard(interface))
    }

    static func report(_ provider: WireGuardTunnelProvider, in report: ServiceReport) async -> ServiceReport {
        var report = report
        report.update(from: await provider.status)
        return report
    }
}

extension CredentialTunnelConfiguration: TunnelKindConfiguration {
    static var provider: String { ProfileFolder.loginProvider }
    static var isLogin: Bool { true }

    var kind: TunnelKind { .login(self) }
    var firstSettings: TunnelSettings {
        settings(for: Body.Assignment(addresses: [], routes: [.allIPv4, .allIPv6]))
    }
    var firstServer: String? { server }

    static func makeProvider(
        _ environments: ProviderEnvironments, interface: String, transport: any ProvisioningTransport
    ) -> CredentialTunnelProvider {
        CredentialTunnelProvider(environment: environments.login)
    }

    static func report(_ provider: CredentialTunnelProvider, in report: ServiceReport) async -> ServiceReport {
        var report = report
        report.update(from: await provider.status)
        return report
    }
}

extension EnrolledTunnelConfiguration: TunnelKindConfiguration {
    var kind: TunnelKind { .enrolled(self) }
    var firstSettings: TunnelSettings { settings() }
    var firstServer: String? { gateways.first?.authority }

    static func makeProvider(
        _ environments: ProviderEnvironments, interface: String, transport: any ProvisioningTransport
    ) -> EnrolledTunnelProvider {
        EnrolledTunnelProvider(transport: transport, environment: environments.wireGuard(interface))
    }

    static func report(_ provider: EnrolledTunnelProvider, in report: ServiceReport) async -> ServiceReport {
        var report = report
        report.update(from: await provider.inner.status)
        report.update(from: await provider.status)
        return report
    }
}

/// The kind of a tunnel, with its configuration.
enum TunnelKind: Sendable {
    case wireGuard(WireGuardTunnelConfiguration)
    case login(CredentialTunnelConfiguration)
    /// WireGuard with settings that a gateway assigns.
    case enrolled(EnrolledTunnelConfiguration)

    private static let configurations: [any TunnelKindConfiguration.Type] = [
        WireGuardTunnelConfiguration.self, CredentialTunnelConfiguration.self, EnrolledTunnelConfiguration.self,
    ]

    /// The kind that a profile is of.
    init(_ profile: TunnelProfile) throws(TunnelError) {
        guard let configuration = Self.configurations.first(where: { $0.provider == profile.provider }) else {
            throw TunnelError(
                .configurationInvalid, "the profile '\(profile.name)' is for '\(profile.provider)'",
                fix: "start it with the program that supports this provider")
        }
        self = try configuration.kind(of: profile)
    }

    /// The configuration of any kind.
    var configuration: any TunnelKindConfiguration {
        switch self {
        case .wireGuard(let configuration): configuration
        case .login(let configuration): configuration
        case .enrolled(let configuration): configuration
        }
    }

    /// The word for the kind's provider in profiles.
    var provider: String { type(of: configuration).provider }

    /// Whether it is a tunnel with a login.
    var isLogin: Bool { type(of: configuration).isLogin }

    /// The exit status of a process whose tunnel this error has ended.
    func status(of error: TunnelError) -> Int32 { ExitStatus.of(error.code, isLogin: isLogin) }

    var leakPolicy: LeakPolicy {
        get { configuration.leakPolicy }
        set {
            var changed = configuration
            changed.leakPolicy = newValue
            self = changed.kind
        }
    }

    /// The settings as far as they are known before the tunnel is up.
    var settings: TunnelSettings { configuration.firstSettings }

    /// The server as it is written; `nil` if this side does not start the connection.
    var server: String? { configuration.firstServer }

    /// The configuration as it is in profiles.
    var json: JSONValue {
        get throws(TunnelError) { try configuration.json }
    }

    /// Checks the configuration, before a start or before a profile is stored.
    /// - Throws: all problems for which it would be refused.
    func check(_ source: String) throws(CommandProblem) {
        try configuration.checkRouteTable(source)
        let problems = configuration.validate()
        guard problems.isEmpty else {
            throw CommandProblem(
                TunnelError(
                    .configurationInvalid, "\(source) cannot be used",
                    fix: "correct the fields that are listed", problems: problems))
        }
    }
}

extension LoadedTunnel {
    /// The configuration of a WireGuard tunnel.
    var wireGuard: WireGuardTunnelConfiguration? {
        if case .wireGuard(let configuration) = kind { configuration } else { nil }
    }

    /// The least strict leak policy that applies.
    var leakPolicy: LeakPolicy {
        get { kind.leakPolicy }
        set { kind.leakPolicy = newValue }
    }
}
