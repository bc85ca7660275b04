// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Judges servers by their chains.
///
/// One evaluator serves a whole app, from any thread. Its policies can be replaced at any time; an evaluation that is
/// under way goes on with those it began with.
public final class TrustEvaluator: Sendable {
    /// Hears of what happens: of each evaluation after it is decided, and of client identities. It runs before the
    /// connection goes on, so it has to be quick, and cannot change the decision.
    public typealias Observer = @Sendable (TrustActivity) -> Void

    private struct State {
        var configuration: TrustConfiguration
        /// The newest issue time that the publisher signed: no earlier time is believed for expiry.
        var newestIssueTime: Date = .distantPast
        /// The same of what was signed with a secret that is in every app: believed where that tightens only.
        var newestSharedIssueTime: Date = .distantPast

        /// The time that expiry is judged by. Of a shared secret's times, only pins that refuse everything after their
        /// expiry hear: others would give way to system trust whenever somebody says that it is late.
        func expiryDate(of rule: PolicySet.Rule, at date: Date) -> Date {
            let published = max(date, newestIssueTime)
            guard case .pinned(let policy, _) = rule, policy.expiry?.afterwards == .refuse else { return published }
            return max(published, newestSharedIssueTime)
        }
    }

    private let state: Mutex<State>
    let systemTrust: any SystemTrust
    private let observers: [Observer]
    private let listeners = Mutex<[UInt64: AsyncStream<TrustActivity>.Continuation]>([:])
    private let listenerCount = Atomic<UInt64>(0)

    /// The most certificates that a server may send.
    public static let maximumChainLength = 10

    /// An evaluator.
    ///
    /// - Parameters:
    ///   - configuration: the policies of each environment.
    ///   - systemTrust: what vouches for chains; the system's own roots by default.
    ///   - observers: hear of what happens, in order.
    public init(
        configuration: TrustConfiguration, systemTrust: any SystemTrust = TrustEvaluator.platformTrust,
        observers: [Observer] = []
    ) {
        state = Mutex(State(configuration: configuration))
        self.systemTrust = systemTrust
        self.observers = observers
    }

    /// An evaluator with one environment.
    public convenience init(
        policies: PolicySet, systemTrust: any SystemTrust = TrustEvaluator.platformTrust, observers: [Observer] = []
    ) {
        self.init(configuration: TrustConfiguration(policies), systemTrust: systemTrust, observers: observers)
    }

    deinit {
        for listener in listeners.withLock({ $0 }).values { listener.finish() }
    }

    // MARK: - What happens

    /// All that happens from now on: the servers that are judged, and what becomes of the client identities of sessions that
    /// this evaluator judges for. It ends with the evaluator; each call gives a stream of its own.
    /// - Parameter limit: how much is kept for a reader who is slow; of more, the newest is.
    public func activity(bufferingNewest limit: Int = 256) -> AsyncStream<TrustActivity> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TrustActivity.self, bufferingPolicy: .bufferingNewest(max(limit, 1)))
        let number = listenerCount.wrappingAdd(1, ordering: .relaxed).newValue
        continuation.onTermination = { [weak self] _ in
            _ = self?.listeners.withLock { $0.removeValue(forKey: number) }
        }
        listeners.withLock { $0[number] = continuation }
        return stream
    }

    /// Tells observers and streams.
    package func report(_ activity: TrustActivity) {
        for observer in observers { observer(activity) }
        for listener in listeners.withLock({ $0 }).values { listener.yield(activity) }
    }

    // MARK: - Policies

    /// All policies, and the environment in use.
    public var configuration: TrustConfiguration { state.withLock { $0.configuration } }

    /// The policies in use.
    public var policies: PolicySet { configuration.policies }

    /// Changes the environment in use, from the next evaluation on.
    ///
    /// - Throws: ``PolicyError`` if there are no policies for it; nothing changes then.
    public func select(_ environment: TrustEnvironment) throws(PolicyError) {
        try state.withLock { state throws(PolicyError) in try state.configuration.select(environment) }
    }

    /// Replaces the policies of an environment, or of the one in use, from the next evaluation on.
    public func update(_ policies: PolicySet, for environment: TrustEnvironment? = nil) {
        state.withLock { $0.configuration.set(policies, for: environment ?? $0.configuration.selected) }
    }

    /// Replaces everything, from the next evaluation on.
    public func update(_ configuration: TrustConfiguration) {
        state.withLock { $0.configuration = configuration }
    }

    /// Learns that it is at least this late, from something that was signed then.
    ///
    /// - Parameter isShared: whether it was signed with a secret that is in every app.
    package func learn(issueTime: Date, isShared: Bool = false) {
        state.withLock { state in
            if isShared {
                state.newestSharedIssueTime = max(state.newestSharedIssueTime, issueTime)
            } else {
                state.newestIssueTime = max(state.newestIssueTime, issueTime)
            }
        }
    }

    /// Whether the pins of a rule have expired: what was decided before that holds no longer.
    package func hasExpired(_ rule: PolicySet.Rule, at date: Date) -> Bool {
        guard case .pinned(let policy, _) = rule, let expiry = policy.expiry else { return false }
        return state.withLock { $0.expiryDate(of: rule, at: date) } >= expiry.date
    }

    // MARK: - Evaluation

    /// Judges a server.
    ///
    /// - Parameters:
    ///   - chain: what the server sent, in DER, its own certificate first.
    ///   - host: the name or address that was meant to be reached, not what the server says that it is.
    ///   - port: for reports only.
    ///   - date: the moment at which certificates and pins have to be valid.
    /// - Returns: the decision. An answer always comes; what goes wrong is a reason to refuse.
    public func evaluate(chain: [[UInt8]], host: String, port: Int = 443, at date: Date = Date()) async -> TrustDecision
    {
        await evaluate(chain: chain, host: host, port: port, at: date) { [systemTrust] in await systemTrust.verify($0) }
    }

    /// The same with another source of system trust.
    func evaluate(
        chain: [[UInt8]], host: String, port: Int, at date: Date,
        verify: (SystemTrustRequest) async -> SystemTrustResult
    ) async -> TrustDecision {
        let clock = ContinuousClock()
        let start = clock.now
        let state = state.withLock { $0 }
        let policies = state.configuration.policies
        var rule = PolicySet.Rule.missing
        let decision: TrustDecision
        do {
            let name = try HostName(host)
            rule = policies.rule(for: name)
            decision = await decide(
                rule, chain: chain, host: name, at: date, expiryDate: state.expiryDate(of: rule, at: date), verify)
        } catch {
            decision = TrustDecision(.invalidHost, [.hostInvalid(error.description)])
        }
        guard !observers.isEmpty || listeners.withLock({ !$0.isEmpty }) else { return decision }
        let evaluation = TrustEvaluation(
            decision: decision, host: host, port: port, rule: rule, environment: state.configuration.selected,
            presentedChain: chain, date: date, duration: clock.now - start)
        report(.judged(evaluation))
        return decision
    }

    /// Steps 1 and 2, then ``TrustProcedure``.
    private func decide(
        _ rule: PolicySet.Rule, chain: [[UInt8]], host: HostName, at date: Date, expiryDate: Date,
        _ verify: (SystemTrustRequest) async -> SystemTrustResult
    ) async -> TrustDecision {
        if case .missing = rule {
            return TrustDecision(.policyMissing, [.policyMissing], leafKey: (try? Self.leaf(of: chain))?.keyHash)
        }
        let leaf: CertificateFields
        do { leaf = try Self.leaf(of: chain) } catch {
            return TrustDecision(.invalidChain, [.chainRefused(error.reason)])
        }
        var pins: [Pin] = []
        if case .pinned(let policy, _) = rule { pins = policy.pins }
        let request = SystemTrustRequest(chain: chain, host: host, date: date) { [pins] verified in
            pins.isEmpty || PinMatcher(chain: verified)?.matches(of: pins).isEmpty == false
        }
        let result = await verify(request)
        var procedure = TrustProcedure(
            leaf: leaf, presentedCount: chain.count, host: host, date: Self.seconds(date), expiryDate: expiryDate)
        return procedure.decide(rule, result)
    }

    /// Reads the leaf, after a look at the size of what was sent.
    private static func leaf(of chain: [[UInt8]]) throws(DERError) -> CertificateFields {
        guard let first = chain.first else { throw DERError("the server sent no certificate") }
        guard chain.count <= maximumChainLength else {
            throw DERError("the server sent \(chain.count) certificates, more than \(maximumChainLength)")
        }
        for certificate in chain where certificate.count > CertificateFields.maximumSize {
            throw DERError("a certificate has \(certificate.count) bytes")
        }
        return try CertificateFields(first)
    }

    private static func seconds(_ date: Date) -> Int64 {
        let seconds = date.timeIntervalSince1970.rounded(.down)
        return Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max)
    }
}
