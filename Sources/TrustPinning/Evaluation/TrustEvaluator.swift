// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Decides whether to trust servers, by their certificate chains and the app's policies.
///
/// One evaluator serves a whole app, on any thread. Its policies can be replaced at any time; a running evaluation uses
/// the policies that it started with.
public final class TrustEvaluator: Sendable {
    /// Called after each decision, and with each event of a client identity. It runs before the connection continues,
    /// so it must return quickly. It cannot change the decision.
    public typealias Observer = @Sendable (TrustActivity) -> Void

    private struct State {
        var configuration: TrustConfiguration
        /// The newest issue time that the publisher signed: a lower bound of the time that expiry is compared with.
        var newestIssueTime: Date = .distantPast
        /// The newest issue time that was signed with a secret that is in every app. It is used only where a later time
        /// makes the policy stricter.
        var newestSharedIssueTime: Date = .distantPast

        /// The time with which the expiry of a rule's pins is compared. Issue times that were signed with a shared
        /// secret count only for pins that refuse all connections after their expiry. Otherwise, anyone with the secret
        /// could end pinning with a late issue time.
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

    /// The maximum number of certificates that a server may send.
    public static let maximumChainLength = 10

    /// Creates an evaluator.
    ///
    /// - Parameters:
    ///   - configuration: The policies of each environment.
    ///   - systemTrust: The verifier of chains; by default, it uses the system's roots.
    ///   - observers: The observers, called in order.
    public init(
        configuration: TrustConfiguration, systemTrust: any SystemTrust = TrustEvaluator.platformTrust,
        observers: [Observer] = []
    ) {
        state = Mutex(State(configuration: configuration))
        self.systemTrust = systemTrust
        self.observers = observers
    }

    /// Creates an evaluator with one environment.
    public convenience init(
        policies: PolicySet, systemTrust: any SystemTrust = TrustEvaluator.platformTrust, observers: [Observer] = []
    ) {
        self.init(configuration: TrustConfiguration(policies), systemTrust: systemTrust, observers: observers)
    }

    deinit {
        for listener in listeners.withLock({ $0 }).values { listener.finish() }
    }

    // MARK: - Activity

    /// Returns a new stream of all events from now on: the evaluations, and the events of client identities in sessions
    /// that use this evaluator. The stream ends with the evaluator.
    /// - Parameter limit: The maximum number of events that are kept for a slow reader; older ones are dropped.
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

    /// Passes an event to all observers and streams.
    package func report(_ activity: TrustActivity) {
        for observer in observers { observer(activity) }
        for listener in listeners.withLock({ $0 }).values { listener.yield(activity) }
    }

    // MARK: - Policies

    /// All policies, and the selected environment.
    public var configuration: TrustConfiguration { state.withLock { $0.configuration } }

    /// The policies of the selected environment.
    public var policies: PolicySet { configuration.policies }

    /// Selects an environment, from the next evaluation on.
    ///
    /// - Throws: ``PolicyError`` if it has no policies; nothing changes then.
    public func select(_ environment: TrustEnvironment) throws(PolicyError) {
        try state.withLock { state throws(PolicyError) in try state.configuration.select(environment) }
    }

    /// Replaces the policies of an environment (by default, the selected one), from the next evaluation on.
    public func update(_ policies: PolicySet, for environment: TrustEnvironment? = nil) {
        state.withLock { $0.configuration.set(policies, for: environment ?? $0.configuration.selected) }
    }

    /// Replaces the whole configuration, from the next evaluation on.
    public func update(_ configuration: TrustConfiguration) {
        state.withLock { $0.configuration = configuration }
    }

    /// Records a signed issue time as a lower bound of the current time.
    ///
    /// - Parameter isShared: Whether the time was signed with a secret that is in every app.
    package func recordIssueTime(_ issueTime: Date, isShared: Bool = false) {
        state.withLock { state in
            if isShared {
                state.newestSharedIssueTime = max(state.newestSharedIssueTime, issueTime)
            } else {
                state.newestIssueTime = max(state.newestIssueTime, issueTime)
            }
        }
    }

    /// Whether the pins of a rule have expired. If so, earlier decisions with this rule are no longer valid.
    package func hasExpired(_ rule: PolicySet.Rule, at date: Date) -> Bool {
        guard case .pinned(let policy, _) = rule, let expiry = policy.expiry else { return false }
        return state.withLock { $0.expiryDate(of: rule, at: date) } >= expiry.date
    }

    // MARK: - Evaluation

    /// Evaluates a server.
    ///
    /// - Parameters:
    ///   - chain: The certificates that the server sent, in DER, its own first.
    ///   - host: The name or address that the client wants to reach, not a name that the server sent.
    ///   - port: The port, used in reports only.
    ///   - date: The time at which certificates and pins must be valid.
    /// - Returns: The decision. Each error becomes a reason to refuse.
    public func evaluate(chain: [[UInt8]], host: String, port: Int = 443, at date: Date = Date()) async -> TrustDecision
    {
        await evaluate(chain: chain, host: host, port: port, at: date) { [systemTrust] in await systemTrust.verify($0) }
    }

    /// Evaluates a server with another source of system trust.
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

    /// Runs steps 1 and 2, then ``TrustProcedure``.
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

    /// Checks the size of the chain, then reads the leaf.
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
