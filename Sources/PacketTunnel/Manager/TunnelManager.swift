// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// The app's side of tunnels: profiles, and what to do with them.
///
/// It adds profiles and their secrets to tunnels, and has one interface for all kinds of ``Tunnel``.
public actor TunnelManager {
    /// Makes the tunnel of a profile.
    public typealias MakeTunnel = @Sendable (TunnelProfile) throws(TunnelError) -> any Tunnel

    private final class Entry {
        var profile: TunnelProfile
        let tunnel: any Tunnel
        let status: Broadcast<TunnelStatusUpdate>
        let relay: Task<Void, Never>
        /// Nothing more begins.
        var isRemoving = false
        /// The error of reading the profile, when it could not be read last; `profile` is then the one before, if any.
        var problem: TunnelError?
        /// Whether the profile was never read: then `profile` has its id and its name only.
        var isPlaceholder = false
        /// The number of starts of the tunnel that have not returned.
        var launches = 0
        /// The number of stops so far. A start that sees it change does not begin.
        var stops = 0

        init(_ profile: TunnelProfile, _ tunnel: any Tunnel, _ logger: Logger) {
            self.profile = profile
            self.tunnel = tunnel
            let status = Broadcast(tunnel.status)
            let updates = tunnel.statusUpdates()
            self.status = status
            let id = profile.id
            relay = Task {
                // The first one is usually the one there is.
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
    /// The number of changes under way, by profile.
    private var changing: [String: Int] = [:]
    private var loads: [LoadRun] = []
    private var loadCount = 0
    private var lastLoad = 0
    /// The number of starts so far. Where one tunnel runs at a time, only the latest start has an effect.
    private var launchCount = 0

    /// A load under way, and the profiles that changed since it began. The values it reads of them may be old.
    private final class LoadRun {
        var changed: Set<String>
        init(_ changed: Set<String>) { self.changed = changed }
    }

    /// Creates a manager without profiles until ``load()`` or ``create(_:secrets:)``.
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

    /// Creates a manager for one tunnel in this process: for tests, previews and simulators. Nothing is stored, and every
    /// profile starts in `host`, one at a time.
    /// - Parameters:
    ///   - host: The tunnel.
    ///   - secrets: The store of the profiles' secrets. `nil`: the host's store, so that the provider finds them.
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

    /// The profiles that exist and that could not be read last. Their tunnels can be followed and stopped, and they can be removed.
    public var unreadableProfiles: [UnreadableProfile] {
        entries.values.compactMap { entry in
            entry.problem.map { UnreadableProfile(id: entry.profile.id, name: entry.profile.name, error: $0) }
        }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
    }

    /// Reads the stored profiles. Profiles that were removed from the store are forgotten, without stopping their tunnels.
    ///
    /// A profile that cannot be read keeps its last value, and is among ``unreadableProfiles``. A load does not change a
    /// profile that is created, changed or removed while it runs.
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
        // A later load has read newer values.
        guard number > lastLoad else { return loaded.errors }
        lastLoad = number
        try apply(loaded, except: run.changed)
        return loaded.errors
    }

    private func apply(_ loaded: LoadedProfiles, except changed: Set<String>) throws(TunnelError) {
        defer { publish() }
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

    /// The entry of a profile, which is made if there is none.
    private func entry(of profile: TunnelProfile) throws(TunnelError) -> Entry {
        if let entry = entries[profile.id] { return entry }
        let entry = Entry(profile, try makeTunnel(profile), logger)
        entries[profile.id] = entry
        return entry
    }

    /// Makes a change of a profile, which loads that are under way must not undo.
    private func changing(_ id: String, _ body: () async throws(TunnelError) -> Void) async throws(TunnelError) {
        changing[id, default: 0] += 1
        for run in loads { run.changed.insert(id) }
        defer {
            let count = changing[id] ?? 0
            changing[id] = count > 1 ? count - 1 : nil
        }
        try await body()
    }

    /// Removes the private data of profiles that were removed elsewhere, such as in the system's settings.
    /// - Returns: the ids of those profiles.
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
    /// - Throws: `.settingsInvalid` with all problems; the errors of the stores. Then nothing is stored.
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
        // Its name is taken from here on.
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
                // The caller needs the first error.
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
    /// - Throws: `.profileNotFound`, `.settingsInvalid`; the errors of the stores. Then nothing changes, including secrets.
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
                    // The caller needs the first error.
                }
            }
            throw error
        }
        publish()
    }

    /// Removes a profile, and its secrets with it. Its tunnel is stopped before; its status ends with
    /// ``TunnelStatus/invalid``.
    /// - Throws: `.profileNotFound`; the errors of the stores. Then a part may be removed already: call it again for the rest.
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
            // Before it is forgotten: after a failure the next call removes the rest.
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
    /// - Throws: `.profileNotFound`, `.profileDisabled`; what ``Tunnel/start(_:)`` throws.
    public func start(_ id: String) async throws(TunnelError) {
        logger.info("starting the tunnel", metadata: ["profile": "\(id)"])
        try await noting("the tunnel did not start", id) { () throws(TunnelError) in try await launch(id) }
    }

    private func launch(_ id: String) async throws(TunnelError) {
        let entry = try entry(id)
        let stops = entry.stops
        let profile = try profile(id)
        guard profile.isEnabled else {
            throw TunnelError(.profileDisabled, "the profile '\(profile.name)' is disabled", fix: "enable it")
        }
        let request = TunnelStartRequest(
            configuration: try profile.configuration.text(), leakPolicy: profile.leakPolicy, profileID: id)
        launchCount += 1
        let number = launchCount
        if runsOneAtATime {
            for other in entries.values
            where other !== entry && (other.tunnel.status.status.isActive || other.launches > 0) {
                other.stops += 1
                try await other.tunnel.stop(.superseded)
                // A later start stops the other tunnels itself, and its own tunnel must stay up.
                guard number == launchCount else {
                    throw TunnelError(.stopped, "another tunnel was started instead")
                }
            }
        }
        // It may have been removed or stopped since.
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

    /// Does something, and writes down that it failed.
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

    /// The status of a profile's tunnel; ``TunnelStatus/invalid`` when there is no such profile.
    public func status(_ id: String) -> TunnelStatusUpdate {
        entries[id]?.tunnel.status ?? TunnelStatusUpdate(.invalid)
    }

    /// The status of a profile's tunnel and every change from now on. It ends with ``TunnelStatus/invalid`` when the profile
    /// is removed; for a profile that does not exist that is all.
    public func statusUpdates(_ id: String) -> AsyncStream<TunnelStatusUpdate> {
        if let entry = entries[id] { return entry.status.follow() }
        return AsyncStream { continuation in
            continuation.yield(TunnelStatusUpdate(.invalid))
            continuation.finish()
        }
    }

    /// Sends a message to the provider of a profile's tunnel; returns its answer, `nil` if it has none.
    /// - Throws: `.profileNotFound`; what ``Tunnel/sendMessage(_:)`` throws.
    public func sendMessage(_ message: [UInt8], to id: String) async throws(TunnelError) -> [UInt8]? {
        try await entry(id).tunnel.sendMessage(message)
    }

    /// Delivers a request to the provider of a profile's tunnel, as the tunnel does.
    func exchange(_ request: [UInt8], with id: String) async throws -> [UInt8]? {
        try await entry(id).tunnel.exchange(request)
    }

    /// Starts and stops tunnels by their on-demand rules for this network path. A profile whose tunnel is up keeps it while
    /// its rules agree; otherwise the first one, by name, that wants to connect does.
    /// - Returns: The errors, by profile.
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
        // Tunnels that fail below are stopping and do not block others.
        let active = Set(entries.filter { $0.value.tunnel.status.status.isActive }.keys)
        for profile in candidates where profile.onDemand.decision(for: path) == .connect {
            let status = status(profile.id).status
            // A blocked tunnel may connect on another network. Another profile's guard is not removed for it.
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
