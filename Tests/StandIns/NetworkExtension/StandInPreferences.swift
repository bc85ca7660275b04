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
        var loadFailures: [String: any Error] = [:]
        var heldSaves: [String: [@Sendable () -> Void]] = [:]
        var saveHandlers: [String: @Sendable () -> Void] = [:]
        var permissionRequests: [String: Int] = [:]
    }

    private static let store = Store()

    // MARK: - Settings of a test

    /// Makes saving and loading fail for the configurations of an extension.
    public static func fail(_ bundleIdentifier: String, with error: (any Error)?) {
        store.lock.withLock { store.failures[bundleIdentifier] = error }
    }

    /// Makes only loading fail for the configurations of an extension.
    public static func failLoads(of bundleIdentifier: String, with error: (any Error)?) {
        store.lock.withLock { store.loadFailures[bundleIdentifier] = error }
    }

    /// The result of `loadAllFromPreferences`. "The array passed to the block may be empty if no NETunnelProvider configurations
    /// were successfully read from the disk. The NSError passed to this block will be `nil` if the load operation succeeded,
    /// non-nil otherwise", says its header.
    public enum Listing: Sendable {
        case complete
        case empty
        case failing(NEVPNError)
    }

    /// The result for calls of the current task.
    public static let listing = TaskLocal<Listing>(wrappedValue: .complete)

    /// Lets saves of an extension's configurations wait until ``releaseSaves(of:)``: the system may ask the user
    /// first, and the page of `saveToPreferences` states no time for the call of its completion handler.
    /// - Parameter handler: called for each save that waits.
    public static func holdSaves(of bundleIdentifier: String, _ handler: @escaping @Sendable () -> Void) {
        store.lock.withLock {
            store.heldSaves[bundleIdentifier] = []
            store.saveHandlers[bundleIdentifier] = handler
        }
    }

    /// Makes the saves that wait.
    public static func releaseSaves(of bundleIdentifier: String) {
        let saves = store.lock.withLock {
            store.saveHandlers[bundleIdentifier] = nil
            return store.heldSaves.removeValue(forKey: bundleIdentifier) ?? []
        }
        for save in saves { store.queue.async(execute: save) }
    }

    /// Removes one configuration behind the app's back, as another process can.
    public static func remove(_ manager: NEVPNManager) {
        let session = store.lock.withLock { manager.savedID.flatMap { store.records.removeValue(forKey: $0) }?.session }
        session?.setConfiguration(nil) { .configurationInvalid }
    }

    /// Switches the on-demand rules of an extension's configurations, as a user does in the settings.
    public static func setOnDemand(_ isOn: Bool, of bundleIdentifier: String) {
        store.lock.withLock {
            for (id, record) in store.records where bundle(record.configuration) == bundleIdentifier {
                store.records[id]?.isOnDemandEnabled = isOn
                store.records[id]?.version += 1
            }
        }
    }

    /// How many configurations of an extension are saved.
    public static func count(of bundleIdentifier: String) -> Int {
        store.lock.withLock { store.records.values.count { bundle($0.configuration) == bundleIdentifier } }
    }

    /// The number of times that the system asked the user whether an extension may have another configuration: once for each
    /// configuration, at its first save.
    public static func permissionRequests(of bundleIdentifier: String) -> Int {
        store.lock.withLock { store.permissionRequests[bundleIdentifier] ?? 0 }
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
        let job: @Sendable () -> Void = { completion?(store.lock.withLock { save(handed.value) }) }
        let name = bundle(manager.protocolConfiguration)
        let waiting = store.lock.withLock { () -> (@Sendable () -> Void)? in
            guard store.heldSaves[name] != nil else { return nil }
            store.heldSaves[name]?.append(job)
            return store.saveHandlers[name]
        }
        if let waiting { waiting() } else { store.queue.async(execute: job) }
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
        if old == nil { store.permissionRequests[bundle(configuration), default: 0] += 1 }
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
        // After its first save, a manager must be loaded before its tunnel can be started.
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
        let name = bundle(record.configuration)
        if let failure = store.failures[name] ?? store.loadFailures[name] { return failure }
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
        let listing = listing.get()
        store.queue.async {
            switch listing {
            case .complete: break
            case .empty: return completion([], nil)
            case .failing(let error): return completion(nil, error)
            }
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
