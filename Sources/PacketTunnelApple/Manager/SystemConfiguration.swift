// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// A VPN configuration of the system and its connection, with asynchronous functions for the system's calls.
///
/// The documentation of the system's manager states: "Instances of this class are thread safe". But a save consists of
/// several calls, and a load overwrites every property, so these operations are executed one after the other.
@safe
final class SystemConfiguration: @unchecked Sendable {
    let manager: NETunnelProviderManager
    private let turns = Turns()
    private let saved: Mutex<Bool>

    init(_ manager: NETunnelProviderManager = NETunnelProviderManager(), isSaved: Bool = false) {
        self.manager = manager
        saved = Mutex(isSaved)
    }

    /// Whether the system had this configuration at the last load or save, and this process has not removed it since.
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

    /// Asks the system whether it still has this configuration, and reads it if so. A configuration that is being
    /// changed, or that the system fails to read for another reason, counts as present.
    func presence(of id: String) async -> Presence {
        guard turns.beginNow() else { return .present(nil) }
        defer { turns.end() }
        guard isSaved else { return .removed }
        if let error = await result({ manager.loadFromPreferences(completionHandler: $0) }) {
            return isRemoval(error) ? .removed : .present(TunnelError(error, fallback: .storage))
        }
        return profileID == id || status != .invalid ? .present(nil) : .removed
    }

    /// Whether an error means that the configuration was removed. The status must be `invalid` ("The VPN is not
    /// configured" in Apple's header), because the error alone can have another cause.
    private func isRemoval(_ error: any Error) -> Bool {
        Self.has(.configurationInvalid, error) && status == .invalid
    }

    /// Saves the configuration and loads it again, because the system starts only a loaded configuration. A failed save
    /// changes nothing. If the load after a save fails, the save still succeeds, because a start that fails loads
    /// again.
    /// - Parameter change: Makes the changes. It is called again if another process has changed the configuration
    ///   meanwhile.
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
                // Otherwise a later save would also write the changes of this one.
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

    /// Removes the configuration, if the system still has it.
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

    /// The bundle identifier of the configuration's extension.
    var bundleIdentifier: String? { configuration?.providerBundleIdentifier }

    /// The ID of the configuration's profile.
    var profileID: String? { configuration?.providerConfiguration?[NetworkExtensionStart.idKey] as? String }

    /// The profile as JSON, if the configuration contains it.
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
