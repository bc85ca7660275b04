// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// A VPN configuration of the system, and its connection: the system's calls as asynchronous ones.
///
/// "Instances of this class are thread safe", says the system's documentation of its manager. A save consists of several calls
/// and a load overwrites every property, so that they are made one after the other.
@safe
final class SystemConfiguration: @unchecked Sendable {
    let manager: NETunnelProviderManager
    private let turns = Turns()
    private let saved: Mutex<Bool>

    init(_ manager: NETunnelProviderManager = NETunnelProviderManager(), isSaved: Bool = false) {
        self.manager = manager
        saved = Mutex(isSaved)
    }

    /// Whether the system had this configuration when it was loaded or saved last, and it was not removed here since.
    var isSaved: Bool { saved.withLock { $0 } }

    /// All configurations of this app.
    /// - Throws: `.permissionDenied`, `.storage`.
    static func loadAll() async throws(TunnelError) -> [SystemConfiguration] {
        let done = OneShot<Result<[SystemConfiguration], TunnelError>>()
        NETunnelProviderManager.loadAllFromPreferences { managers, error in
            if let error { done.finish(.failure(TunnelError(error, fallback: .storage))) }
            done.finish(.success((managers ?? []).map { SystemConfiguration($0, isSaved: true) }))
        }
        return try await done.value.get()
    }

    /// Loads the saved configuration.
    func load() async throws(TunnelError) {
        await turns.begin()
        defer { turns.end() }
        try await read()
    }

    private func read() async throws(TunnelError) {
        try await perform { manager.loadFromPreferences(completionHandler: $0) }
    }

    /// The state of a configuration that a list does not contain.
    enum Presence {
        /// The system has it, or failed to read it with this error.
        case present(TunnelError?)
        case removed
    }

    /// Asks the system whether it still has this configuration, and reads it then. A configuration that is being changed, and one
    /// that the system fails to read for another reason, are present.
    func presence(of id: String) async -> Presence {
        guard turns.beginNow() else { return .present(nil) }
        defer { turns.end() }
        guard isSaved else { return .removed }
        if let error = await result({ manager.loadFromPreferences(completionHandler: $0) }) {
            return isRemoval(error) ? .removed : .present(TunnelError(error, fallback: .storage))
        }
        return profileID == id || status != .invalid ? .present(nil) : .removed
    }

    /// Whether an error means that the configuration was removed. The status `invalid` is "The VPN is not configured" in
    /// Apple's header; the error alone can have another cause.
    private func isRemoval(_ error: any Error) -> Bool {
        Self.has(.configurationInvalid, error) && status == .invalid
    }

    /// Saves the configuration and loads it again: the system starts only a configuration that was loaded. A failed save changes
    /// nothing. A failed load after the save does not make the save a failure, because a start that fails loads again.
    /// - Parameter change: makes the changes. Called again when the configuration has changed behind our back.
    func save(_ change: (NETunnelProviderManager) -> Void) async throws(TunnelError) {
        await turns.begin()
        defer { turns.end() }
        change(manager)
        if let error = await result({ manager.saveToPreferences(completionHandler: $0) }) {
            do throws(TunnelError) {
                guard Self.has(.configurationStale, error) else { throw TunnelError(error, fallback: .storage) }
                try await read()
                change(manager)
                try await perform { manager.saveToPreferences(completionHandler: $0) }
            } catch {
                // Else a later save writes the changes of this one.
                if isSaved { await readIfPossible() }
                throw error
            }
        }
        saved.withLock { $0 = true }
        await readIfPossible()
    }

    private func readIfPossible() async {
        _ = await result { manager.loadFromPreferences(completionHandler: $0) }
    }

    /// Removes the configuration; one that the system no longer has is fine.
    func remove() async throws(TunnelError) {
        await turns.begin()
        defer { turns.end() }
        guard isSaved else { return }
        if let error = await result({ manager.removeFromPreferences(completionHandler: $0) }), !isRemoval(error) {
            throw TunnelError(error, fallback: .storage)
        }
        saved.withLock { $0 = false }
    }

    private static func has(_ code: NEVPNError.Code, _ error: any Error) -> Bool {
        let error = error as NSError
        return error.domain == NEVPNErrorDomain && error.code == code.rawValue
    }

    private func perform(_ body: (@escaping @Sendable ((any Error)?) -> Void) -> Void) async throws(TunnelError) {
        if let error = await result(body) { throw TunnelError(error, fallback: .storage) }
    }

    private func result(_ body: (@escaping @Sendable ((any Error)?) -> Void) -> Void) async -> (any Error)? {
        let done = OneShot<(any Error)?>()
        body { done.finish($0) }
        return await done.value
    }

    // MARK: - Contents

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

    /// Returns the error that ended the tunnel last, or `nil` if there was none or the system does not report it.
    func lastError() async -> TunnelError? {
        let done = OneShot<TunnelError?>()
        manager.connection.fetchLastDisconnectError {
            done.finish($0.map { TunnelError($0, fallback: .providerFailed) })
        }
        return await done.value
    }

    /// Sends a message to the extension; returns its answer.
    /// - Throws: `.channelFailed`, `.closed` if the task is cancelled.
    func send(_ message: Data) async throws(TunnelError) -> Data? {
        guard let session else {
            throw TunnelError(.channelFailed, "the connection does not belong to a tunnel provider")
        }
        return try await session.exchange(message)
    }
}
