// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Foundation
public import TrustPinning

/// The app's servers, keys and folder. Replace the values of ``example(folder:)`` with your own.
public struct PinnedAppSettings: Sendable {
    /// The server of one environment.
    public struct Server: Sendable {
        /// The resource that the app requests.
        public var greeting: URL
        /// The signed policies that the app fetches.
        public var updates: URL
        /// The policies that are built into the app.
        public var policies: PolicySet

        /// Creates the description of a server.
        public init(greeting: URL, updates: URL, policies: PolicySet) {
            (self.greeting, self.updates, self.policies) = (greeting, updates, policies)
        }
    }

    /// The app's name in signed policies.
    public var appID: String
    /// The servers, by environment.
    public var servers: [TrustEnvironment: Server]
    /// The environment at the start of the app.
    public var selected: TrustEnvironment
    /// The public keys of the policies' publisher, by name.
    public var keys: [String: PolicyVerificationKey]
    /// The folder in which accepted policies are stored.
    public var folder: URL

    /// Creates settings.
    public init(
        appID: String, servers: [TrustEnvironment: Server], selected: TrustEnvironment = .production,
        keys: [String: PolicyVerificationKey], folder: URL
    ) {
        (self.appID, self.servers, self.selected) = (appID, servers, selected)
        (self.keys, self.folder) = (keys, folder)
    }

    /// The folder for accepted policies among the app's files.
    ///
    /// - Throws: The system's error if it does not exist and cannot be created.
    public static func supportFolder() throws -> URL {
        try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true
        ).appending(path: "Policies")
    }

    /// Two environments with servers that do not exist, and a key for their policies.
    ///
    /// - Throws: `PinError`, `PolicyError` or another error about a value that is not valid.
    public static func example(folder: URL) throws -> PinnedAppSettings {
        let publicKey = """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VwAyEAQ9TToR3Ligo4kd+//EqGwQ2s5My7erP24SQBMq0iWg8=
            -----END PUBLIC KEY-----
            """
        return PinnedAppSettings(
            appID: "com.example.PinnedApp",
            servers: [
                .production: try server("api.example.com"), .acceptance: try server("acceptance.example.com"),
            ], keys: ["2026": try PolicyVerificationKey(pem: publicKey)],
            folder: folder)
    }

    private static func server(_ host: String) throws -> Server {
        guard let greeting = URL(string: "https://\(host)/greeting"),
            let updates = URL(string: "https://\(host)/policies.json")
        else { throw CocoaError(.formatting) }
        let policy = try PinningPolicy(pins: [
            Pin(.spki, "sha256/NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc="),
            Pin(.spki, "sha256/r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E=", role: .backup),
        ])
        let policies = try PolicySet([HostPolicy(.exact(host), policy)], unlisted: .refuse)
        return Server(greeting: greeting, updates: updates, policies: policies)
    }
}
