// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The name of an environment, such as `production`, whose servers an app uses.
public struct TrustEnvironment: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral,
    CustomStringConvertible
{
    /// The name.
    public let rawValue: String

    /// Creates an environment with a name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Creates an environment with a name.
    public init(stringLiteral name: String) { rawValue = name }

    /// The name.
    public var description: String { rawValue }

    /// The environment for developers.
    public static let development: TrustEnvironment = "development"
    /// The environment for acceptance tests before a release.
    public static let acceptance: TrustEnvironment = "acceptance"
    /// The environment for users.
    public static let production: TrustEnvironment = "production"
}

/// A set of policies for each environment, one of which is selected.
public struct TrustConfiguration: Sendable, Hashable {
    /// The policies of each environment.
    public private(set) var environments: [TrustEnvironment: PolicySet]
    /// The selected environment.
    public private(set) var selected: TrustEnvironment

    /// Creates a configuration with several environments.
    ///
    /// - Throws: ``PolicyError`` if the selected environment has no policies.
    public init(_ environments: [TrustEnvironment: PolicySet], selected: TrustEnvironment = .production)
        throws(PolicyError)
    {
        self.environments = environments
        self.selected = selected
        guard environments[selected] != nil else { throw Self.unknown(selected) }
    }

    /// Creates a configuration with one environment.
    public init(_ policies: PolicySet, environment: TrustEnvironment = .production) {
        environments = [environment: policies]
        selected = environment
    }

    /// The policies of the selected environment.
    public var policies: PolicySet { environments[selected] ?? .refusingAll }

    /// Selects an environment.
    ///
    /// - Throws: ``PolicyError`` if it has no policies; nothing changes then.
    public mutating func select(_ environment: TrustEnvironment) throws(PolicyError) {
        guard environments[environment] != nil else { throw Self.unknown(environment) }
        selected = environment
    }

    /// Replaces the policies of an environment.
    public mutating func set(_ policies: PolicySet, for environment: TrustEnvironment) {
        environments[environment] = policies
    }

    private static func unknown(_ environment: TrustEnvironment) -> PolicyError {
        PolicyError([PolicyProblem("environment", "there are no policies for \(environment)")])
    }
}
