// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The name of an environment that an app talks to.
public struct TrustEnvironment: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral,
    CustomStringConvertible
{
    /// The name.
    public let rawValue: String

    /// An environment of a name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// An environment of a name.
    public init(stringLiteral name: String) { rawValue = name }

    /// The name.
    public var description: String { rawValue }

    /// Where developers try things out.
    public static let development: TrustEnvironment = "development"
    /// Where a release is accepted before it goes out.
    public static let acceptance: TrustEnvironment = "acceptance"
    /// What users talk to.
    public static let production: TrustEnvironment = "production"
}

/// A set of policies for each environment, one of which is selected.
public struct TrustConfiguration: Sendable, Hashable {
    /// The policies of each environment.
    public private(set) var environments: [TrustEnvironment: PolicySet]
    /// The environment in use.
    public private(set) var selected: TrustEnvironment

    /// Policies for environments.
    ///
    /// - Throws: ``PolicyError`` if the selected one has none.
    public init(_ environments: [TrustEnvironment: PolicySet], selected: TrustEnvironment = .production)
        throws(PolicyError)
    {
        self.environments = environments
        self.selected = selected
        guard environments[selected] != nil else { throw Self.unknown(selected) }
    }

    /// The policies of one environment only.
    public init(_ policies: PolicySet, environment: TrustEnvironment = .production) {
        environments = [environment: policies]
        selected = environment
    }

    /// The policies in use. Without any, every host would be refused.
    public var policies: PolicySet { environments[selected] ?? .refusingAll }

    /// Changes the environment in use.
    ///
    /// - Throws: ``PolicyError`` if there are no policies for it; nothing changes then.
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
