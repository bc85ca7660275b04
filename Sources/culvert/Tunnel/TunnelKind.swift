// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import Provisioning
import WireGuardCore
import WireGuardTunnel

/// What kind of tunnel it is, and how it is configured.
enum TunnelKind: Sendable {
    case wireGuard(WireGuardTunnelConfiguration)
    case login(CredentialTunnelConfiguration)
    /// WireGuard with the settings that a gateway gives out.
    case enrolled(EnrolledTunnelConfiguration)

    /// The word for the kind's provider in profiles.
    var provider: String {
        switch self {
        case .wireGuard: ProfileFolder.provider
        case .login: ProfileFolder.loginProvider
        case .enrolled: EnrolledTunnelConfiguration.provider
        }
    }

    /// Whether it is a tunnel with a login.
    var isLogin: Bool {
        if case .login = self { true } else { false }
    }

    /// The exit status of a process whose tunnel this error has ended.
    func status(of error: TunnelError) -> Int32 { ExitStatus.of(error.code, isLogin: isLogin) }

    /// The kind that a profile is of.
    init(_ profile: TunnelProfile) throws(TunnelError) {
        switch profile.provider {
        case ProfileFolder.provider: self = .wireGuard(try profile.configuration.decode())
        case ProfileFolder.loginProvider: self = .login(try profile.configuration.decode())
        case EnrolledTunnelConfiguration.provider: self = .enrolled(try profile.configuration.decode())
        default:
            throw TunnelError(
                .configurationInvalid, "the profile '\(profile.name)' is for '\(profile.provider)'",
                fix: "start it with the program that knows it")
        }
    }

    var leakPolicy: LeakPolicy {
        get {
            switch self {
            case .wireGuard(let configuration): configuration.leakPolicy
            case .login(let configuration): configuration.leakPolicy
            case .enrolled(let configuration): configuration.leakPolicy
            }
        }
        set {
            switch self {
            case .wireGuard(var configuration):
                configuration.leakPolicy = newValue
                self = .wireGuard(configuration)
            case .login(var configuration):
                configuration.leakPolicy = newValue
                self = .login(configuration)
            case .enrolled(var configuration):
                configuration.leakPolicy = newValue
                self = .enrolled(configuration)
            }
        }
    }

    /// The settings as far as they are known before the tunnel is up.
    ///
    /// What a server gives a login or a device is not: a policy that holds meanwhile takes it that everything is routed into the tunnel.
    var settings: TunnelSettings {
        switch self {
        case .wireGuard(let configuration): configuration.settings()
        case .login(let configuration):
            configuration.settings(for: Body.Assignment(addresses: [], routes: [.allIPv4, .allIPv6]))
        case .enrolled(let configuration): configuration.settings()
        }
    }

    /// The server, as it is written; nil where there is none that this side begins with.
    var server: String? {
        switch self {
        case .wireGuard(let configuration): configuration.peers.compactMap(\.endpoint?.description).first
        case .login(let configuration): configuration.server
        case .enrolled(let configuration): configuration.gateways.first?.authority
        }
    }

    /// The configuration in the form that a host starts it with.
    var json: JSONValue {
        get throws(TunnelError) {
            switch self {
            case .wireGuard(let configuration): try JSONValue(encoding: configuration)
            case .login(let configuration): try JSONValue(encoding: configuration)
            case .enrolled(let configuration): try JSONValue(encoding: configuration)
            }
        }
    }

    /// Says before a start, or before a profile is kept, why it would not be taken.
    func check(_ source: String) throws(CommandProblem) {
        let problems: [SettingsProblem]
        switch self {
        case .wireGuard(let configuration):
            try configuration.checkRouteTable(source)
            problems = configuration.validate()
        case .login(let configuration): problems = configuration.validate()
        case .enrolled(let configuration): problems = configuration.validate()
        }
        guard problems.isEmpty else {
            throw CommandProblem(
                TunnelError(
                    .configurationInvalid, "\(source) cannot be used as it is",
                    fix: "correct the fields that are listed", problems: problems))
        }
    }
}

extension LoadedTunnel {
    /// The configuration of a WireGuard tunnel.
    var wireGuard: WireGuardTunnelConfiguration? {
        if case .wireGuard(let configuration) = kind { configuration } else { nil }
    }

    /// The least that may be held back.
    var leakPolicy: LeakPolicy {
        get { kind.leakPolicy }
        set { kind.leakPolicy = newValue }
    }
}
