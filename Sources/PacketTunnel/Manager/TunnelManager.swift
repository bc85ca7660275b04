// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// An app's tunnels: their profiles, secrets and status.
///
/// A manager stores profiles and their secrets, and controls tunnels of every kind through the ``Tunnel`` interface.
public actor TunnelManager {
    /// Makes the tunnel of a profile.
    public typealias MakeTunnel = @Sendable (TunnelProfile) throws(TunnelError) -> any Tunnel

    private final class Entry {
        var profile: TunnelProfile
        let tunnel: any Tunnel
        let status: Broadcast<TunnelStatusUpdate>
        let relay: Task<Void, Never>
        /// Whether the profile is being removed. No new operation may begin then.
        var isRemoving = false
        /// The error of the last attempt to read the profile, or `nil`. After an error `profile` has the previous
        /// value, if any.
        var problem: TunnelError?
        /// Whether the profile was never read. Then `profile` has only an ID and a name.
        var isPlaceholder = false
        /// The number of starts of the tunnel that have not returned.
        var launches = 0
        /// The number of stops so far. A start that finds it changed does not begin.
        var stops = 0

        init(_ profile: TunnelProfile, _ tunnel: any Tunnel, _ logger: Logger) {
            self.profile = profile
            self.tunnel = tunnel
            let status = Broadcast(tunnel.status)
            let updates = tunnel.statusUpdates()
            self.status = status
            let id = profile.id
            relay = Task {
                // The first update usually repeats the current status.
                for await update in updates where update != status.current {
                    status.send(update)
                    let error = update.error.map { ": \($0)" } ?? ""
                    logger.info("tunnel \(update.status.rawValue)\(error)", metadata: ["profile": "\(id)"])
                }
                status.finish()
            }
        }

        deinit {
            relay.cancel()
            status.finish()
        }
    }

    private let store: any ProfileStore
    private let secrets: any SecretStore
    private let makeTunnel: MakeTunnel
    private let runsOneAtATime: Bool
    let logger: Logger
    private var entries: [String: Entry] = [:]
    private let list = Broadcast<[TunnelProfile]>([])
    /// The errors of configurations that another library saved and that the last load could not adopt. Such a configuration
    /// is unchanged, so a new profile would be a second entry in the system's settings. An app without these, without profiles
    /// and without ``unreadableProfiles`` can create one, even if ``load()`` returns other errors.
    public private(set) var adoptionErrors: [TunnelError] = []
    /// The number of changes under way, by profile.
    private var changing: [String: Int] = [:]
    private var loads: [LoadRun] = []
    private var loadCount = 0
    private var lastLoad = 0
    /// The number of starts so far. If only one tunnel may run, only the latest start has an effect.
    private var launchCount = 0

    /// A load in progress, and the profiles that changed since it began, for which it may read old values.
    private final class LoadRun {
        var changed: Set<String>
        init(_ changed: Set<String>) { self.changed = changed }
    }

    /// Creates a manager. It has no profiles before ``load()`` or ``create(_:secrets:)``.
    ///
    /// - Parameters:
    ///   - store: The store of profiles.
    ///   - secrets: The store of their secrets.
    ///   - runsOneAtATime: Whether starting a tunnel first stops the others, with ``StopReason/superseded``.
    ///   - logger: Logs the operations and their results.
    ///   - makeTunnel: Makes the tunnel of a profile.
    public init(
        store: any ProfileStore, secrets: any SecretStore, runsOneAtATime: Bool = true,
        logger: Logger = Logger(label: "tunnel.manager") { _ in SwiftLogNoOpLogHandler() },
        makeTunnel: @escaping MakeTunnel
    ) {
        self.logger = logger
        self.store = store
        self.secrets = secrets
        self.runsOneAtATime = runsOneAtATime
        self.makeTunnel = makeTunnel
    }

    /// Creates a manager for one tunnel in this process: for tests, previews and simulators. It stores profiles in
    /// memory only, and runs every profile in `host`, one at a time.
    /// - Parameters:
    ///   - host: The tunnel.
    ///   - secrets: The store of the profiles' secrets. `nil` selects the host's store, so that the provider finds
    ///     them.
    public init(_ host: any TunnelHost, secrets: (any SecretStore)? = nil) {
        self.init(store: MemoryProfileStore(), secrets: secrets ?? host.secrets ?? MemorySecretStore()) { _ in host }
    }

    deinit { list.finish() }

    // MARK: - Profiles

    /// The profiles, sorted by name.
    public var profiles: [TunnelProfile] { list.current }

    /// The profiles now, and again after every change.
    public func profileUpdates() -> AsyncStream<[TunnelProfile]> { list.follow() }

    /// The profile with this id.
    /// - Throws: `.profileNotFound`.
    public func profile(_ id: String) throws(TunnelError) -> TunnelProfile {
        let entry = try entry(id)
        if entry.isPlaceholder, let problem = entry.problem { throw problem }
        return entry.profile
    }

    /// The profiles that exist but could not be read at the last attempt. Their tunnels can be observed and stopped,
    /// and they can be removed.
    public var unreadableProfiles: [UnreadableProfile] {
        entries.values.compactMap { entry in
            entry.problem.map { UnreadableProfile(id: entry.profile.id, name: entry.profile.name, error: $0) }
        }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
    }

    /// Reads the stored profiles. The manager drops profiles that are no longer in the store, without stopping their
    /// tunnels.
    ///
    /// A profile that cannot be read keeps its last value and is listed in ``unreadableProfiles``. A load does not
    /// affect a profile that is created, changed or removed meanwhile.
    /// - Returns: The errors of the profiles that cannot be read, and other problems of the store.
    @discardableResult
    public func load() async throws(TunnelError) -> [TunnelError] {
        let run = LoadRun(Set(changing.keys))
        loads.append(run)
        defer { loads.removeAll { $0 === run } }
        loadCount += 1
        let number = loadCount
        let loaded = try await noting("profiles cannot be read", nil) { () throws(TunnelError) in
            try await store.loadAll()
        }
        for error in loaded.errors { logger.warning("a profile cannot be read: \(error)") }
        logger.debug("\(loaded.profiles.count) profiles were read")
        // A later load has already read newer values.
        guard number > lastLoad else { return loaded.errors }
        lastLoad = number
        try apply(loaded, except: run.changed)
        return loaded.errors
    }

    private func apply(_ loaded: LoadedProfiles, except changed: Set<String>) throws(TunnelError) {
        defer { publish() }
        adoptionErrors = loaded.adoptionErrors
        let ids = Set(loaded.profiles.map(\.id) + loaded.unreadable.map(\.id))
        for (id, entry) in entries where !ids.contains(id) && !changed.contains(id) && !entry.isRemoving { forget(id) }
        for profile in loaded.profiles where !changed.contains(profile.id) {
            let entry = try entry(of: profile)
            guard !entry.isRemoving else { continue }
            (entry.profile, entry.problem, entry.isPlaceholder) = (profile, nil, false)
        }
        for unreadable in loaded.unreadable where !changed.contains(unreadable.id) {
            let isKnown = entries[unreadable.id] != nil
            let entry = try entry(of: .placeholder(unreadable))
            guard !entry.isRemoving else { continue }
            entry.problem = unreadable.error
            if !isKnown { entry.isPlaceholder = true }
        }
    }

    /// Returns the entry of a profile, and creates it if it does not exist.
    private func entry(of profile: TunnelProfile) throws(TunnelError) -> Entry {
        if let entry = entries[profile.id] { return entry }
        let entry = Entry(profile, try makeTunnel(profile), logger)
        entries[profile.id] = entry
        return entry
    }

    /// Runs a change of a profile. Loads in progress must not undo it.
    private func changing(_ id: String, _ body: () async throws(TunnelError) -> Void) async throws(TunnelError) {
        changing[id, default: 0] += 1
        for run in loads { run.changed.insert(id) }
        defer {
            let count = changing[id] ?? 0
            changing[id] = count > 1 ? count - 1 : nil
        }
        try await body()
    }

    /// Removes the private data of profiles that another program removed, such as the system's settings.
    /// - Returns: The IDs of those profiles.
    @discardableResult
    public func removeOrphans() async throws(TunnelError) -> [String] {
        let ids = try await noting("private data was not removed", nil) { () throws(TunnelError) in
            let ids = try await store.removeOrphans()
            for id in ids where entries[id] == nil { try await secrets.removeAll(of: id) }
            return ids
        }
        for id in ids { logger.info("private data of a removed profile was removed", metadata: ["profile": "\(id)"]) }
        return ids
    }

    /// Adds a profile. It can be started when this returns.
    /// - Throws: `.settingsInvalid` with all problems, or the errors of the stores. After an error nothing is stored.
    public func create(
        _ profile: TunnelProfile, secrets new: [String: SecretBytes] = [:]
    ) async throws(TunnelError) {
        try await noting("the profile was not created", profile.id) { () throws(TunnelError) in
            try await changing(profile.id) { () throws(TunnelError) in try await add(profile, new) }
        }
        logger.info("the profile was created", metadata: ["profile": "\(profile.id)"])
    }

    private func add(_ profile: TunnelProfile, _ new: [String: SecretBytes]) async throws(TunnelError) {
        try check(profile, isNew: true)
        let tunnel = try makeTunnel(profile)
        // From here on the entry reserves the name.
        entries[profile.id] = Entry(profile, tunnel, logger)
        do throws(TunnelError) {
            for (name, secret) in new.sorted(by: { $0.key < $1.key }) {
                try await secrets.write(secret, name, of: profile.id)
            }
            try await store.save(profile)
        } catch {
            forget(profile.id)
            do throws(TunnelError) {
                try await secrets.removeAll(of: profile.id)
            } catch {
                // Ignore errors of the cleanup: the caller needs the first error.
            }
            throw error
        }
        publish()
    }

    /// Changes a profile. A tunnel that is up continues unchanged until its next start.
    ///
    /// - Parameters:
    ///   - profile: The replacement of the profile with the same ID.
    ///   - changes: Secrets to change; a `nil` value removes one. The others stay.
    /// - Throws: `.profileNotFound`, `.settingsInvalid`, or the errors of the stores. After an error nothing has
    ///   changed, including secrets.
    public func update(
        _ profile: TunnelProfile, secrets changes: [String: SecretBytes?] = [:]
    ) async throws(TunnelError) {
        try await noting("the profile was not changed", profile.id) { () throws(TunnelError) in
            try await changing(profile.id) { () throws(TunnelError) in try await replace(profile, changes) }
        }
        logger.info("the profile was changed", metadata: ["profile": "\(profile.id)"])
    }

    private func replace(
        _ profile: TunnelProfile, _ changes: [String: SecretBytes?]
    ) async throws(TunnelError) {
        let entry = try entry(profile.id)
        try check(profile, isNew: false)
        let before = entry.profile
        entry.profile = profile
        var undo: [String: SecretBytes?] = [:]
        do throws(TunnelError) {
            for (name, change) in changes.sorted(by: { $0.key < $1.key }) {
                let isKept = try await secrets.names(of: profile.id).contains(name)
                undo[name] = .some(isKept ? try await secrets.read(name, of: profile.id) : nil)
                try await set(change, name, of: profile.id)
            }
            try await store.save(profile, replacing: entry.isPlaceholder ? nil : before)
            (entry.problem, entry.isPlaceholder) = (nil, false)
        } catch {
            entry.profile = before
            for (name, secret) in undo {
                do throws(TunnelError) {
                    try await set(secret, name, of: profile.id)
                } catch {
                    // Ignore errors of the cleanup: the caller needs the first error.
                }
            }
            throw error
        }
        publish()
    }

    /// Removes a profile and its secrets, after stopping its tunnel. The tunnel's status ends with
    /// ``TunnelStatus/invalid``.
    /// - Throws: `.profileNotFound`, or the errors of the stores. After an error a part may be removed already: call
    ///   again to remove the rest.
    public func remove(_ id: String) async throws(TunnelError) {
        try await noting("the profile was not removed", id) { () throws(TunnelError) in
            try await changing(id) { () throws(TunnelError) in try await delete(id) }
        }
        logger.info("the profile was removed", metadata: ["profile": "\(id)"])
    }

    private func delete(_ id: String) async throws(TunnelError) {
        let entry = try entry(id)
        entry.isRemoving = true
        entry.stops += 1
        do throws(TunnelError) {
            if entry.tunnel.status.status.isActive || entry.launches > 0 {
                try await entry.tunnel.stop(.configurationRemoved)
            }
            try await store.remove(id)
            // Remove the secrets before the entry, so that after a failure another call removes the rest.
            try await secrets.removeAll(of: id)
        } catch {
            entry.isRemoving = false
            throw error
        }
        // Followers must see the tunnel go down before its profile is removed.
        for await update in entry.status.follow() where update == entry.tunnel.status { break }
        forget(id)
        publish()
    }

    private func set(_ secret: SecretBytes?, _ name: String, of id: String) async throws(TunnelError) {
        if let secret {
            try await secrets.write(secret, name, of: id)
        } else {
            try await secrets.remove(name, of: id)
        }
    }

    private func check(_ profile: TunnelProfile, isNew: Bool) throws(TunnelError) {
        var problems = profile.validate()
        if entries.values.contains(where: { $0.profile.name == profile.name && $0.profile.id != profile.id }) {
            problems.append(
                SettingsProblem(
                    field: "name", value: profile.name, problem: "is the name of another profile",
                    fix: "use another name"))
        }
        if isNew, entries[profile.id] != nil {
            problems.append(
                SettingsProblem(
                    field: "id", value: profile.id, problem: "is the id of another profile", fix: "update that one"))
        }
        guard problems.isEmpty else { throw .invalidSettings(problems) }
    }

    private func entry(_ id: String) throws(TunnelError) -> Entry {
        guard let entry = entries[id], !entry.isRemoving else { throw .noProfile(id) }
        return entry
    }

    private func forget(_ id: String) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        entry.relay.cancel()
        entry.status.finish(with: TunnelStatusUpdate(.invalid))
    }

    private func publish() {
        list.send(
            entries.values.filter { !$0.isPlaceholder }.map(\.profile).sorted { ($0.name, $0.id) < ($1.name, $1.id) })
    }

    // MARK: - Tunnels

    /// Starts the tunnel of a profile; returns once it is up.
    /// - Parameters:
    ///   - id: The profile's ID.
    ///   - options: The provider's ``ProviderContext/startOptions``, for this start only. They must not contain secrets.
    /// - Throws: `.profileNotFound`, `.profileDisabled`, or the errors of ``Tunnel/start(_:)``.
    public func start(_ id: String, options: [String: JSONValue]? = nil) async throws(TunnelError) {
        logger.info("starting the tunnel", metadata: ["profile": "\(id)"])
        try await noting("the tunnel did not start", id) { () throws(TunnelError) in try await launch(id, options) }
    }

    private func launch(_ id: String, _ options: [String: JSONValue]?) async throws(TunnelError) {
        let entry = try entry(id)
        let stops = entry.stops
        let profile = try profile(id)
        guard profile.isEnabled else {
            throw TunnelError(.profileDisabled, "the profile '\(profile.name)' is disabled", fix: "enable it")
        }
        let request = TunnelStartRequest(
            configuration: try profile.configuration.text(), leakPolicy: profile.leakPolicy, profileID: id,
            options: options)
        launchCount += 1
        let number = launchCount
        if runsOneAtATime {
            for other in entries.values
            where other !== entry && (other.tunnel.status.status.isActive || other.launches > 0) {
                other.stops += 1
                try await other.tunnel.stop(.superseded)
                // A later start stops the other tunnels itself. Stopping more here could stop the tunnel that it
                // starts.
                guard number == launchCount else {
                    throw TunnelError(.stopped, "another tunnel was started instead")
                }
            }
        }
        // The profile may have been removed, or its tunnel stopped, meanwhile.
        guard try self.entry(id) === entry, entry.stops == stops else {
            throw TunnelError(.stopped, "the tunnel was stopped before it started")
        }
        entry.launches += 1
        defer { entry.launches -= 1 }
        try await entry.tunnel.start(request)
    }

    /// Stops the tunnel of a profile; returns once it is down.
    /// - Throws: `.profileNotFound`, `.channelFailed`.
    public func stop(_ id: String, reason: StopReason = .userInitiated) async throws(TunnelError) {
        let entry = try entry(id)
        entry.stops += 1
        logger.info("stopping the tunnel: \(reason)", metadata: ["profile": "\(id)"])
        try await noting("the tunnel did not stop", id) { () throws(TunnelError) in
            try await entry.tunnel.stop(reason)
        }
    }

    /// Runs an operation, and logs its failure.
    private func noting<Value>(
        _ failure: String, _ id: String?, _ body: () async throws(TunnelError) -> Value
    ) async throws(TunnelError) -> Value {
        do throws(TunnelError) {
            return try await body()
        } catch {
            logger.error("\(failure): \(error)", metadata: id.map { ["profile": "\($0)"] })
            throw error
        }
    }

    /// The status of a profile's tunnel; ``TunnelStatus/invalid`` if the profile does not exist.
    public func status(_ id: String) -> TunnelStatusUpdate {
        entries[id]?.tunnel.status ?? TunnelStatusUpdate(.invalid)
    }

    /// The status of a profile's tunnel and every later change. The stream ends with ``TunnelStatus/invalid`` when the
    /// profile is removed. For a profile that does not exist, it has only this element.
    public func statusUpdates(_ id: String) -> AsyncStream<TunnelStatusUpdate> {
        if let entry = entries[id] { return entry.status.follow() }
        return AsyncStream { continuation in
            continuation.yield(TunnelStatusUpdate(.invalid))
            continuation.finish()
        }
    }

    /// Sends a message to the provider of a profile's tunnel; returns its answer, or `nil` if it has none.
    /// - Throws: `.profileNotFound`, or the errors of ``Tunnel/sendMessage(_:)``.
    public func sendMessage(_ message: [UInt8], to id: String) async throws(TunnelError) -> [UInt8]? {
        try await entry(id).tunnel.sendMessage(message)
    }

    /// Delivers a request to the provider of a profile's tunnel, and returns its reply.
    func exchange(_ request: [UInt8], with id: String) async throws -> [UInt8]? {
        try await entry(id).tunnel.exchange(request)
    }

    /// Applies the on-demand rules to this network path: starts and stops tunnels. If the rules of a tunnel that is up
    /// agree, it stays up. Otherwise the first profile by name whose rules ask for a connection starts.
    /// - Returns: The errors, by profile ID.
    @discardableResult
    public func followPath(_ path: NetworkPath) async -> [String: TunnelError] {
        var errors: [String: TunnelError] = [:]
        let candidates = profiles.filter { $0.isEnabled && $0.isOnDemandEnabled }
        for profile in candidates where profile.onDemand.decision(for: path) == .disconnect {
            guard status(profile.id).status.isActive else { continue }
            do throws(TunnelError) {
                try await stop(profile.id)
            } catch {
                errors[profile.id] = error
            }
        }
        // A tunnel that fails below is stopping and does not block another.
        let active = Set(entries.filter { $0.value.tunnel.status.status.isActive }.keys)
        for profile in candidates where profile.onDemand.decision(for: path) == .connect {
            let status = status(profile.id).status
            // A blocked tunnel may start on another network. The guard of another profile is not removed for it.
            guard !status.isActive || status == .blocked else { continue }
            if runsOneAtATime, !active.subtracting([profile.id]).isEmpty { continue }
            do throws(TunnelError) {
                try await start(profile.id)
                if runsOneAtATime { break }
            } catch {
                errors[profile.id] = error
            }
        }
        return errors
    }
}
