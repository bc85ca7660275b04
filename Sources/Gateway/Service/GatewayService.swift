// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import Logging
import NetworkAddresses
package import PacketTunnelLinux
package import PasswordHashing
package import Provisioning
import Synchronization
import TunnelSystem
import WireGuardCore

/// The operations of a gateway. The API, the Unix socket and the command line call this type. In a running gateway,
/// only this type accesses the store, except to copy it for a backup.
///
/// Each call has a ``Caller``, whose permission is checked in one place (`Caller.check`). The service does not depend
/// on HTTP. All times are UTC, and all IDs are random.
package final class GatewayService: Sendable {
    package let settings: GatewaySettings
    let store: GatewayStore
    let logger: Logger
    let random: RandomSource
    private let clock: GatewayClock
    let keyStore: any ServerKeyStore
    let presharedMaster: PresharedKey
    let endpoints: [EndpointAddress]
    /// The pins of the device API's keys, which grants announce.
    let pins: [ServerKeyPin]?
    let passwords: PasswordWork
    /// The secret key of the hash that selects, for an unknown login, the user whose password cost the login gets.
    let unknownLogins: SecretHash
    /// The number of requests that have set or removed a password.
    let passwordChanges = Atomic(0)
    let state: Mutex<State>
    /// The rate limits of logins. The login server acquires this lock while it holds its own, so nothing else may be
    /// done under this lock.
    let logins: Mutex<LoginLimiter>
    let clockWatch: Mutex<ClockWatch>
    let ends = Mutex(AccessEnds())
    /// The operations that end or permit access.
    let endings = SerialOperations()
    private let listeners = Mutex<[UInt64: AsyncStream<Void>.Continuation]>([:])

    /// State that is lost at a restart.
    struct State: Sendable {
        var keys: ServerKeys
        var limiter: LoginLimiter
        var log = BoundedLog()
        /// Limits the audit entries for refused logins.
        var refusals = BoundedLog()
        var nonces = BoundedTable<DeviceID, [RotationChallenge]>(capacity: 20_000)
        /// Secrets of recently made items, for clients that repeat a request because they did not receive the answer.
        var secrets = BoundedTable<SecretHash, RememberedSecret>(capacity: 256)
        /// The last audited failure of each device to prove its old key.
        var proofs = OncePerMinute<DeviceID>(capacity: 1024)
        /// The last time that each error was logged, by its text.
        var failures = OncePerMinute<String>(capacity: 64)
        /// The next server key that this process has announced.
        var announcedKey: PublicKey?
        /// Whether times that were recorded by a wrong clock were corrected since the time became certain.
        var hasCorrectedTimes = false
        /// The rates of changes by valid credentials.
        var changes = TokenBuckets<ChangeSource>(capacity: 20_000, perSecond: 2, burst: 5)
        /// The misuses of invitations that are not recorded yet.
        var misuses = BoundedTable<SecretHash, PendingMisuses>(capacity: 1024)
        /// The last recorded use of each token.
        var uses = OncePerMinute<TokenID>(capacity: 1024)
    }

    struct RememberedSecret: Sendable {
        var secret: BearerSecret
        var until: Int64
    }

    /// - Parameters:
    ///   - pins: The pins of the device API's keys, active and backup; `nil` to announce none.
    ///   - passwordCost: The cost of the hash of a new password; `nil` for the cost in the settings.
    ///   - whenCompared: Called after a login's password was compared, before the result is used.
    /// - Throws: `.invalid` if the settings are not valid.
    package init(
        store: GatewayStore, keys: any ServerKeyStore, pins: [ServerKeyPin]? = nil, settings: GatewaySettings,
        clock: GatewayClock = .system, random: RandomSource = RandomSource(), passwordCost: PasswordHash.Cost? = nil,
        logger: Logger,
        whenCompared: @escaping @Sendable () async -> Void = {}
    ) throws(GatewayError) {
        if let problem = settings.problem {
            throw .invalid(field: problem.field, problem: problem.words)
        }
        do throws(AddressTextError) { endpoints = try settings.effectiveEndpoints() } catch {
            throw .invalid(field: "host", problem: "\(error)")
        }
        self.settings = settings
        self.pins = pins
        self.store = store
        self.logger = logger
        self.random = random
        self.clock = clock
        clockWatch = Mutex(ClockWatch(clock.now(), nanoseconds: clock.nanoseconds()))
        passwords = PasswordWork(passwordCost ?? settings.loginTunnel.passwordCost, whenCompared: whenCompared)
        unknownLogins = SecretHash(of: random.bytes(32))
        keyStore = keys
        presharedMaster = try keys.presharedMaster()
        state = Mutex(State(keys: try keys.serverKeys(), limiter: LoginLimiter(settings.failures)))
        logins = Mutex(
            LoginLimiter(
                settings.failures,
                successes: LoginLimiter.Successes(sessionsPerUser: settings.loginTunnel.sessionsPerUser)))
    }

    /// The network that checks the subnets of devices; `nil` without a tunnel.
    let network = Mutex<(any PeerNetwork)?>(nil)

    /// Has a network check the subnets of devices from now on.
    package func useNetwork(_ network: any PeerNetwork) { self.network.withLock { $0 = network } }

    private let listenerSource = Mutex<@Sendable () -> [NetworkProblem]>({ [] })

    /// Has the status name the listeners of the API that accept no connections.
    package func useListeners(_ problems: @escaping @Sendable () -> [NetworkProblem]) {
        listenerSource.withLock { $0 = problems }
    }

    /// The listeners of the API that accept no connections.
    package var listenerProblems: [NetworkProblem] { listenerSource.withLock { $0 }() }

    private let tunnel = Mutex<(limit: Duration, apply: @Sendable () async -> Void)?>(nil)

    /// Has each reply to a device that has a new key wait until the tunnel has applied the key. The device sends its first
    /// handshake initiation when it has the reply, and repeats a lost one only after 5 s.
    /// - Parameters:
    ///   - limit: The longest wait, so that a network that does not answer delays no reply further.
    ///   - apply: Applies the changes of the store to the tunnel.
    package func useTunnel(waitLimit limit: Duration = .seconds(2), apply: @escaping @Sendable () async -> Void) {
        tunnel.withLock { $0 = (limit, apply) }
    }

    /// Waits until the tunnel has applied the changes of the store.
    ///
    /// A request that has arrived through the tunnel does not wait: if it replaces the key of its device, the tunnel ends
    /// the session that carries the reply.
    /// - Parameter source: The address of the request; `nil` for a local request.
    func awaitTunnel(_ source: IPAddress?) async {
        let isInside = source.map { source in settings.addresses.contains { $0.network.contains(source) } } ?? false
        guard !isInside, let (limit, apply) = tunnel.withLock({ $0 }) else { return }
        if await isDone(within: limit, apply) { return }
        logRateLimited("cannot apply a device's key to the tunnel within \(limit): its first handshake may be lost")
    }

    // MARK: - Time

    /// The wall clock in whole milliseconds, the precision of the store.
    var now: Date { Date(milliseconds: clock.now().milliseconds) }
    var nanoseconds: Int64 { clock.nanoseconds() }

    // MARK: - The store

    /// Runs an operation of the store, and converts its errors for the caller.
    func stored<Result>(
        _ subject: String, _ operation: @autoclosure () async throws(StoreError) -> Result
    ) async throws(GatewayError) -> Result {
        do throws(StoreError) {
            return try await operation()
        } catch {
            switch error {
            case .notFound: throw .notFound(subject)
            case .exists(.login): throw .loginInUse("")
            case .exists(.key), .exists(.credential): throw .keyInUse
            case .exists(.secret): throw .unavailable("a random ID or secret is already in use")
            case .exists(.address(let address)): throw .addressInUse(address)
            case .exists(.subnet(let subnet)): throw .subnetInUse(subnet)
            case .poolFull(let network, let inUse, let resting):
                logRateLimited("no address of \(network) is free: \(inUse) in use, \(resting) in cooldown")
                throw .poolFull(network, inUse: inUse, resting: resting)
            case .deviceLimit(let limit): throw .deviceLimit(limit)
            case .gatewayFull(let limit):
                logRateLimited("the limit of \(limit) devices is reached")
                throw .gatewayFull(limit)
            case .changed: throw .changed(subject)
            case .ruleLimit(let limit): throw .invalid(field: "rules", problem: "must not be more than \(limit)")
            case .creationConflict(let subject): throw .creationConflict(subject: subject)
            case .newerVersion(let problem), .unavailable(let problem):
                logFailure("the store has failed: \(problem)")
                throw .unavailable(problem)
            }
        }
    }

    /// Runs an operation of the store like ``stored(_:_:)``, and signals the change.
    func changed<Result>(
        _ subject: String, _ operation: @autoclosure () async throws(StoreError) -> Result
    ) async throws(GatewayError) -> Result {
        let result = try await written(subject, try await operation())
        signalChange()
        return result
    }

    func record(
        _ action: AuditRecord.Action, _ subject: String, _ caller: Caller, _ details: [String: String] = [:]
    ) -> AuditRecord {
        AuditRecord(
            at: now, actor: caller.name, source: caller.source, action: action, subject: subject, details: details)
    }

    /// Identifies a creation by its key, caller and content.
    func creation(
        _ key: String?, _ draft: String, _ caller: Caller
    ) throws(GatewayError) -> Creation? {
        guard let key else { return nil }
        guard (1...128).contains(key.utf8.count), !key.unicodeScalars.contains(where: \.isControl) else {
            throw .invalid(field: "creationKey", problem: "must have 1 to 128 bytes and no control characters")
        }
        return Creation(
            key: SecretHash(of: Array("\(caller.name)\u{0}\(key)".utf8)), request: SecretHash(of: Array(draft.utf8)))
    }

    func limits(at now: Date) -> DeviceLimits {
        DeviceLimits(
            servers: settings.addresses, restSince: restSince(at: now),
            devicesPerUser: settings.devicesPerUser, devices: settings.devices)
    }

    /// The start of the period in which released addresses are still in cooldown. While the time is not certain, it is
    /// 1970, so that all released addresses count as in cooldown. An address whose cooldown an administrator has ended
    /// never does, because the store has 1970 as its time of release.
    func restSince(at now: Date) -> Date {
        guard observeClock().isCertain else { return Date(timeIntervalSince1970: 0) }
        return now.addingTimeInterval(-Double(settings.addressRestSeconds))
    }

    // MARK: - Logging

    /// Logs a refusal at a bounded rate.
    func logRateLimited(_ line: @autoclosure () -> String) {
        let time = nanoseconds
        let lines = state.withLock { $0.log.lines(line(), at: time) }
        for line in lines { logger.warning("\(line)") }
    }

    // MARK: - Followers of changes

    /// Returns a stream that yields immediately, and then when there may be new changes. Each call returns a separate
    /// stream.
    package func changeSignals() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        var random = random
        let id = random.next()
        continuation.onTermination = { [weak self] _ in
            self?.listeners.withLock { $0[id] = nil }
        }
        listeners.withLock { $0[id] = continuation }
        continuation.yield()
        return stream
    }

    func signalChange() {
        let all = listeners.withLock { Array($0.values) }
        for listener in all { listener.yield() }
    }
}
