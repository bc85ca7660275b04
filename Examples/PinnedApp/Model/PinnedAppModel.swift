// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Foundation
public import Observation
public import TrustPinning
public import TrustPinningFoundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The state and actions of the app: requests to a pinned server in one of several environments, a client identity, signed
/// updates of the policies, and the list of events.
@MainActor @Observable
public final class PinnedAppModel {
    /// The result of a request.
    public struct Outcome: Equatable, Sendable {
        /// Whether the server was trusted and responded.
        public var isTrusted: Bool
        /// The text for the user.
        public var text: String
    }

    /// A line of the list of events.
    public struct Event: Identifiable, Equatable, Sendable {
        /// The position in the list.
        public var id: Int
        /// The text for the user.
        public var text: String
        /// Whether the user or the developer should act.
        public var isProblem: Bool
    }

    /// The environments, in the order of their names.
    public let environments: [TrustEnvironment]
    /// The selected environment.
    public private(set) var environment: TrustEnvironment
    /// The result of the last request in this environment, or `nil` before the first.
    public private(set) var outcome: Outcome?
    /// The events, in order.
    public private(set) var events: [Event] = []
    /// The versions of the signed policies that are active. An environment without a version uses the built-in policies.
    public private(set) var versions: [TrustEnvironment: Int64] = [:]
    /// The environments with a client identity.
    public private(set) var identified: Set<TrustEnvironment> = []
    /// The passphrase of the PKCS#12 bundle.
    public var passphrase = ""
    /// Whether a request or an update is in progress.
    public private(set) var isBusy = false
    /// The session for all of the app's requests.
    public let session: PinnedSession

    private let settings: PinnedAppSettings
    private let trust: TrustEvaluator
    private let identities: ClientIdentities
    private let updaters: [TrustEnvironment: RemotePolicyUpdater]
    private let now: @Sendable () -> Date

    /// Creates the model of an app whose servers are verified by the system and the pins.
    ///
    /// - Throws: `PolicyError` if the selected environment has no server.
    public convenience init(_ settings: PinnedAppSettings) throws {
        try self.init(settings, systemTrust: PlatformTrust(), now: { Date() }) { trust, identities in
            PinnedSession(trust: trust, identities: identities)
        }
    }

    /// Creates a model with another verifier of chains, clock and session.
    ///
    /// - Throws: `PolicyError` if the selected environment has no server.
    public init(
        _ settings: PinnedAppSettings, systemTrust: any SystemTrust, now: @escaping @Sendable () -> Date,
        makeSession: (TrustEvaluator, ClientIdentities) -> PinnedSession
    ) throws {
        let trust = TrustEvaluator(
            configuration: try TrustConfiguration(
                settings.servers.mapValues(\.policies), selected: settings.selected),
            systemTrust: systemTrust, observers: [TrustEvaluator.unifiedLog(subsystem: settings.appID)])
        let identities = ClientIdentities(now: now)
        let session = makeSession(trust, identities)
        updaters = Dictionary(
            uniqueKeysWithValues: settings.servers.map { environment, server in
                let verifier = RemotePolicyVerifier(
                    appID: settings.appID, environment: environment, keys: settings.keys)
                let updater = RemotePolicyUpdater(
                    evaluator: trust, verifier: verifier, store: FileRemotePolicyStore(folder: settings.folder),
                    transport: PinnedEnvelopeTransport(session: session, url: server.updates))
                return (environment, updater)
            })
        environments = settings.servers.keys.sorted { $0.rawValue < $1.rawValue }
        environment = settings.selected
        (self.settings, self.trust, self.identities, self.session) = (settings, trust, identities, session)
        self.now = now
        // The stream ends with the evaluator, which the model owns.
        let activities = trust.activity()
        Task { [weak self] in
            for await activity in activities { self?.record(activity) }
        }
    }

    // MARK: - Actions

    /// Activates the signed policies that were accepted when the app last ran. Call it once, before the first request.
    public func restore() async {
        for (environment, updater) in updaters {
            do {
                versions[environment] = try await updater.restore()
            } catch {
                add("stored policies refused: \(error)", isProblem: true)
            }
        }
    }

    /// Selects an environment with its policies, client identity and server.
    public func select(_ environment: TrustEnvironment) {
        do {
            try trust.select(environment)
            (self.environment, outcome) = (environment, nil)
        } catch {
            add("\(error)", isProblem: true)
        }
    }

    /// Requests the greeting. The request leaves the device only if the server is trusted.
    public func send() async {
        guard let server = settings.servers[environment] else { return }
        isBusy = true
        defer { isBusy = false }
        do {
            let (data, response) = try await session.data(from: server.greeting)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            outcome = Outcome(
                isTrusted: true, text: "status \(status): \(String(decoding: data, as: UTF8.self))")
        } catch {
            outcome = Outcome(isTrusted: false, text: "\(error)")
        }
    }

    /// Reads a client identity from a PKCS#12 bundle with the passphrase, for the server of the selected environment.
    public func importIdentity(_ bundle: [UInt8]) {
        guard let host = settings.servers[environment]?.greeting.host else { return }
        do {
            let identity = try ClientIdentity(pkcs12: bundle, passphrase: passphrase)
            identities.set(identity, for: [try .exact(host)], in: environment)
            identified.insert(environment)
            passphrase = ""
        } catch {
            add("no client identity: \(error)", isProblem: true)
        }
    }

    /// Fetches the signed policies of the selected environment and applies them. Refused policies change nothing.
    public func update() async {
        let environment = environment
        guard let updater = updaters[environment] else { return }
        isBusy = true
        defer { isBusy = false }
        do {
            switch try await updater.update(at: now()) {
            case .applied(let version):
                versions[environment] = version
                add("version \(version) of the policies applied")
            case .unchanged: add("the policies are up to date")
            }
        } catch {
            add("policies refused (\(error.code.rawValue)): \(error)", isProblem: true)
        }
    }

    // MARK: - Events

    private func record(_ activity: TrustActivity) {
        switch activity {
        case .judged(let evaluation):
            for event in evaluation.decision.events { add("\(evaluation.host): \(event.name)") }
            if !evaluation.decision.isTrusted {
                add("\(evaluation.host) refused: \(evaluation.decision)", isProblem: true)
            }
        case .identity(.used(let host), _), .identity(.missing(let host), _):
            for event in activity.events { add("\(host): \(event.name)") }
        case .identity(.renewalRequired(_, let end), let environment):
            add("the client identity for \(environment) expires on \(end)", isProblem: true)
        case .identity(.unloadable(_, let error), let environment):
            add("no client identity for \(environment): \(error)", isProblem: true)
        }
    }

    private func add(_ text: String, isProblem: Bool = false) {
        events.append(Event(id: events.count, text: text, isProblem: isProblem))
    }
}
