// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The saved configurations of the app. Each manager object has a copy, which can go stale.
public enum StandInPreferences {
    private struct Record {
        var version = 0
        var configuration: NEVPNProtocol
        var description: String?
        var isEnabled: Bool
        var rules: [NEOnDemandRule]?
        var isOnDemandEnabled: Bool
        var session: StandInSession
    }

    private final class Store: @unchecked Sendable {
        let lock = NSRecursiveLock()
        let queue = DispatchQueue(label: "preferences")
        var records: [UUID: Record] = [:]
        var failures: [String: any Error] = [:]
    }

    private static let store = Store()

    // MARK: - What a test sets

    /// Makes saving and loading fail for the configurations of an extension.
    public static func fail(_ bundleIdentifier: String, with error: (any Error)?) {
        store.lock.withLock { store.failures[bundleIdentifier] = error }
    }

    /// How many configurations of an extension are saved.
    public static func count(of bundleIdentifier: String) -> Int {
        store.lock.withLock { store.records.values.count { bundle($0.configuration) == bundleIdentifier } }
    }

    /// Removes the configurations of an extension behind the app's back, as a user does in the settings.
    public static func removeAll(of bundleIdentifier: String) {
        let sessions = store.lock.withLock { () -> [StandInSession] in
            let found = store.records.filter { bundle($0.value.configuration) == bundleIdentifier }
            for id in found.keys { store.records[id] = nil }
            return found.values.map(\.session)
        }
        for session in sessions { session.setConfiguration(nil) { .configurationInvalid } }
    }

    // MARK: - The framework's side

    private static func bundle(_ configuration: NEVPNProtocol?) -> String {
        (configuration as? NETunnelProviderProtocol)?.providerBundleIdentifier ?? ""
    }

    static func save(_ manager: NEVPNManager, _ completion: (@Sendable ((any Error)?) -> Void)?) {
        let handed = Handed(value: manager)
        store.queue.async { completion?(store.lock.withLock { save(handed.value) }) }
    }

    private static func save(_ manager: NEVPNManager) -> (any Error)? {
        guard let configuration = manager.protocolConfiguration?.copy() as? NEVPNProtocol,
            !bundle(configuration).isEmpty, configuration.serverAddress?.isEmpty == false
        else { return NEVPNError(.configurationInvalid) }
        if let failure = store.failures[bundle(configuration)] { return failure }
        if let id = manager.savedID, store.records[id].map({ $0.version != manager.loadedVersion }) ?? true {
            return NEVPNError(.configurationStale)
        }
        let id = manager.savedID ?? UUID()
        let old = store.records[id]
        if manager.isEnabled {
            // One configuration is in use at a time.
            for (other, record) in store.records
            where other != id && bundle(record.configuration) == bundle(configuration) {
                store.records[other]?.isEnabled = false
                _ = record
            }
        }
        let record = Record(
            version: (old?.version ?? 0) + 1, configuration: configuration, description: manager.localizedDescription,
            isEnabled: manager.isEnabled, rules: manager.onDemandRules, isOnDemandEnabled: manager.isOnDemandEnabled,
            session: old?.session ?? manager.storedConnection.session)
        store.records[id] = record
        // One that was saved for the first time has to be loaded before it can be started.
        (manager.savedID, manager.loadedVersion) = (id, old == nil ? 0 : record.version)
        record.session.setConfiguration(configuration as? NETunnelProviderProtocol) { [weak manager] in
            store.lock.withLock {
                guard let record = store.records[id] else { return .configurationInvalid }
                if let manager, manager.loadedVersion == 0 { return .configurationInvalid }
                return record.isEnabled ? nil : .configurationDisabled
            }
        }
        return nil
    }

    static func load(_ manager: NEVPNManager, _ completion: @escaping @Sendable ((any Error)?) -> Void) {
        let handed = Handed(value: manager)
        store.queue.async { completion(store.lock.withLock { load(handed.value) }) }
    }

    private static func load(_ manager: NEVPNManager) -> (any Error)? {
        guard let id = manager.savedID else { return nil }
        guard let record = store.records[id] else { return NEVPNError(.configurationInvalid) }
        if let failure = store.failures[bundle(record.configuration)] { return failure }
        manager.protocolConfiguration = record.configuration.copy() as? NEVPNProtocol
        manager.localizedDescription = record.description
        manager.isEnabled = record.isEnabled
        manager.onDemandRules = record.rules
        manager.isOnDemandEnabled = record.isOnDemandEnabled
        manager.loadedVersion = record.version
        manager.storedConnection.move(to: record.session)
        return nil
    }

    static func remove(_ manager: NEVPNManager, _ completion: (@Sendable ((any Error)?) -> Void)?) {
        let handed = Handed(value: manager)
        store.queue.async {
            let (error, session) = store.lock.withLock { () -> ((any Error)?, StandInSession?) in
                if let failure = store.failures[bundle(handed.value.protocolConfiguration)] { return (failure, nil) }
                guard let id = handed.value.savedID, let record = store.records.removeValue(forKey: id) else {
                    return (NEVPNError(.configurationInvalid), nil)
                }
                handed.value.savedID = nil
                return (nil, record.session)
            }
            session?.setConfiguration(nil) { .configurationInvalid }
            completion?(error)
        }
    }

    static func loadAll(_ completion: @escaping @Sendable ([NETunnelProviderManager]?, (any Error)?) -> Void) {
        store.queue.async {
            let managers = store.lock.withLock {
                store.records.keys.compactMap { id -> NETunnelProviderManager? in
                    let manager = NETunnelProviderManager()
                    manager.savedID = id
                    return load(manager) == nil ? manager : nil
                }
            }
            completion(managers, nil)
        }
    }
}
