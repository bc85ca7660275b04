// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import TunnelSystem

/// A VPN configuration of the system, and its connection: the system's calls as asynchronous ones.
///
/// "Instances of this class are thread safe", says the system's documentation of its manager. The changes that a save
/// consists of are made by one caller at a time.
@safe
final class SystemConfiguration: @unchecked Sendable {
    let manager: NETunnelProviderManager

    init(_ manager: NETunnelProviderManager = NETunnelProviderManager()) {
        self.manager = manager
    }

    /// All configurations of this app.
    /// - Throws: `.permissionDenied`, `.storage`.
    static func loadAll() async throws(TunnelError) -> [SystemConfiguration] {
        let done = OneShot<Result<[SystemConfiguration], TunnelError>>()
        NETunnelProviderManager.loadAllFromPreferences { managers, error in
            if let error { done.finish(.failure(TunnelError(error, fallback: .storage))) }
            done.finish(.success((managers ?? []).map { SystemConfiguration($0) }))
        }
        return try await done.value.get()
    }

    /// Reads what is saved.
    func load() async throws(TunnelError) {
        try await perform { manager.loadFromPreferences(completionHandler: $0) }
    }

    /// Saves, and reads what was saved: what was not read again cannot be started.
    /// - Parameter change: makes the changes. Called again when the configuration has changed behind our back.
    func save(_ change: (NETunnelProviderManager) -> Void) async throws(TunnelError) {
        change(manager)
        if let error = await result({ manager.saveToPreferences(completionHandler: $0) }) {
            guard Self.isStale(error) else { throw TunnelError(error, fallback: .storage) }
            try await load()
            change(manager)
            try await perform { manager.saveToPreferences(completionHandler: $0) }
        }
        try await load()
    }

    /// Removes the configuration.
    func remove() async throws(TunnelError) {
        try await perform { manager.removeFromPreferences(completionHandler: $0) }
    }

    static func isStale(_ error: any Error) -> Bool {
        let error = error as NSError
        return error.domain == NEVPNErrorDomain && error.code == NEVPNError.Code.configurationStale.rawValue
    }

    private func perform(_ body: (@escaping @Sendable ((any Error)?) -> Void) -> Void) async throws(TunnelError) {
        if let error = await result(body) { throw TunnelError(error, fallback: .storage) }
    }

    private func result(_ body: (@escaping @Sendable ((any Error)?) -> Void) -> Void) async -> (any Error)? {
        let done = OneShot<(any Error)?>()
        body { done.finish($0) }
        return await done.value
    }

    // MARK: - What it says

    private var configuration: NETunnelProviderProtocol? {
        manager.protocolConfiguration as? NETunnelProviderProtocol
    }

    /// The extension that it is for.
    var bundleIdentifier: String? { configuration?.providerBundleIdentifier }

    /// The id of the profile that it is of.
    var profileID: String? { configuration?.providerConfiguration?[NetworkExtensionStart.idKey] as? String }

    /// The profile, where it is in the configuration.
    var profileJSON: [UInt8]? {
        (configuration?.providerConfiguration?[NetworkExtensionStart.profileKey] as? Data).map(Array.init)
    }

    /// The persistent reference of the profile's keychain item.
    var reference: [UInt8]? { configuration?.passwordReference.map(Array.init) }

    // MARK: - The connection

    var session: NETunnelProviderSession? { manager.connection as? NETunnelProviderSession }

    var status: NEVPNStatus { manager.connection.status }

    /// What ended the tunnel last; nil when nothing did, or the system does not tell.
    func lastError() async -> TunnelError? {
        let done = OneShot<TunnelError?>()
        manager.connection.fetchLastDisconnectError {
            done.finish($0.map { TunnelError($0, fallback: .providerFailed) })
        }
        return await done.value
    }

    /// Sends a message to the extension; returns what it answers.
    /// - Throws: `.channelFailed`, `.closed` when the task is cancelled.
    func send(_ message: Data) async throws(TunnelError) -> Data? {
        guard let session else { throw TunnelError(.channelFailed, "the connection is no tunnel provider's") }
        return try await session.exchange(message)
    }
}
