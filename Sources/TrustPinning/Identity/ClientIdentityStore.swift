// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A certificate with its key, with which a client says who it is. Each TLS library has its own.
public protocol ClientIdentityMaterial: Sendable {
    /// The dates between which the client's own certificate is valid.
    var validity: Range<Date> { get }
}

/// What there is to show to a host that asks who the client is.
public enum ClientIdentityResult<Identity: ClientIdentityMaterial>: Sendable {
    /// This identity is shown.
    case success(Identity)
    /// There is an identity, but its dates are over, or have not come. Nothing is shown.
    case renewalRequired
    /// No identity is for this host. Nothing is shown.
    case unavailable
}

/// What happened to identities.
public enum ClientIdentityEvent: Sendable, Equatable {
    /// The host asked, and was shown an identity.
    case used(host: HostName)
    /// The host asked, and was shown none.
    case missing(host: HostName)
    /// The identity for the hosts ends at this date, soon or past.
    case renewalRequired(hosts: [HostPattern], end: Date)
    /// The identity for the hosts could not be loaded.
    case unloadable(hosts: [HostPattern], ClientIdentityError)

    /// The event by the name that it has among those of evaluations.
    public var trustEvent: TrustEvent? {
        switch self {
        case .used: .mtlsIdentityUsed
        case .missing: .mtlsIdentityMissing
        case .renewalRequired, .unloadable: nil
        }
    }
}

/// The client's identities, each bound to the hosts that may see it.
///
/// An identity is only ever shown to a host that it is for, that was found trusted, and that asked. It can be replaced
/// at any time: handshakes from then on, and no kept connection, use the new one. (On Apple's platforms the platform may
/// resume a TLS session of before, which has the identity of before.) Identities are kept once they are loaded.
///
/// An identity can be for one environment: it is shown while the evaluator that judges the server has that one selected, and
/// goes before one that is for all. What happens to identities in a session is among the activity of its evaluator too.
public final class ClientIdentityStore<Identity: ClientIdentityMaterial>: Sendable {
    /// Loads an identity when a host first asks for it.
    public typealias Loader = @Sendable () async throws(ClientIdentityError) -> Identity

    private struct Entry {
        var hosts: [HostPattern]
        /// Nil: all of them.
        var environment: TrustEnvironment?
        var identity: Identity?
        var loader: Loader?
        var revision: UInt64
        /// Who has heard that it ends soon: the store's own handler, and the evaluator of a session.
        var hasToldHandler = false
        var hasToldEvaluator = false
    }

    private struct Content {
        var entries: [Entry] = []
        var revision: UInt64 = 0
    }

    private let content = Mutex(Content())
    private let renewalLead: Duration
    private let now: @Sendable () -> Date
    private let onEvent: @Sendable (ClientIdentityEvent) -> Void

    /// No identities yet.
    /// - Parameters:
    ///   - renewalLead: how long before its end an identity is reported by `.renewalRequired`, once each; 14 days by default.
    ///   - now: the time that dates are compared with.
    ///   - onEvent: told what happens, on any thread. It must return soon.
    public init(
        renewalLead: Duration = .seconds(14 * 86_400), now: @escaping @Sendable () -> Date = { Date() },
        onEvent: @escaping @Sendable (ClientIdentityEvent) -> Void = { _ in }
    ) {
        self.renewalLead = renewalLead
        self.now = now
        self.onEvent = onEvent
    }

    /// Binds `identity` to `hosts`, in place of what was bound to exactly these before.
    /// - Parameters:
    ///   - identity: what is shown.
    ///   - hosts: who may see it. Of several bindings that have a host, the first counts.
    ///   - environment: where it is shown; nil for everywhere that has no other.
    public func set(_ identity: Identity, for hosts: [HostPattern], in environment: TrustEnvironment? = nil) {
        noteRenewal(of: put(identity, loader: nil, hosts, environment), identity, asking: nil)
    }

    /// Binds what `loader` loads to `hosts`. It is called when one of them first asks, and again after it has failed.
    public func setLoader(
        for hosts: [HostPattern], in environment: TrustEnvironment? = nil, _ loader: @escaping Loader
    ) {
        _ = put(nil, loader: loader, hosts, environment)
    }

    /// Takes away the identity that was bound to exactly these hosts.
    public func remove(for hosts: [HostPattern], in environment: TrustEnvironment? = nil) {
        content.withLock { content in
            content.entries.removeAll { $0.hosts == hosts && $0.environment == environment }
            content.revision &+= 1
        }
    }

    /// What would be shown to `host` if it asked now.
    public func result(
        for host: HostName, in environment: TrustEnvironment? = nil
    ) async -> ClientIdentityResult<Identity> {
        await result(for: host, in: environment, asking: nil)
    }

    /// A number that changes whenever anything is bound, or no longer is.
    package var revision: UInt64 { content.withLock { $0.revision } }

    /// A number that changes whenever another identity is bound to `host`, or is by a change of the environment.
    package func revision(for host: HostName, in environment: TrustEnvironment?) -> UInt64 {
        entry(for: host, in: environment)?.revision ?? 0
    }

    /// The identity for a host that asks in its handshake, with the event that goes with it.
    /// - Parameter trust: what judged the host: it selects the environment, and hears of the event.
    package func identity(askedBy host: HostName, for trust: TrustEvaluator?) async -> Identity? {
        let asking = trust.map { (trust: $0, environment: $0.configuration.selected) }
        guard case .success(let identity) = await result(for: host, in: asking?.environment, asking: asking) else {
            tell(.missing(host: host), asking)
            return nil
        }
        tell(.used(host: host), asking)
        return identity
    }

    /// Who asks on behalf of a host.
    private typealias Asking = (trust: TrustEvaluator, environment: TrustEnvironment)

    private func result(
        for host: HostName, in environment: TrustEnvironment?, asking: Asking?
    ) async -> ClientIdentityResult<Identity> {
        guard let entry = entry(for: host, in: environment) else { return .unavailable }
        var identity = entry.identity
        if identity == nil, let loader = entry.loader {
            do {
                let loaded = try await loader()
                keep(loaded, revision: entry.revision)
                identity = loaded
            } catch {
                tell(.unloadable(hosts: entry.hosts, error), asking)
            }
        }
        guard let identity else { return .unavailable }
        noteRenewal(of: entry.revision, identity, asking: asking)
        return identity.validity.contains(now()) ? .success(identity) : .renewalRequired
    }

    private func tell(_ event: ClientIdentityEvent, _ asking: Asking?) {
        onEvent(event)
        report(event, asking)
    }

    private func report(_ event: ClientIdentityEvent, _ asking: Asking?) {
        if let asking { asking.trust.report(.identity(event, environment: asking.environment)) }
    }

    /// - Returns: the entry's revision.
    private func put(
        _ identity: Identity?, loader: Loader?, _ hosts: [HostPattern], _ environment: TrustEnvironment?
    ) -> UInt64 {
        content.withLock { content in
            content.revision &+= 1
            let entry = Entry(
                hosts: hosts, environment: environment, identity: identity, loader: loader, revision: content.revision)
            let index = content.entries.firstIndex { $0.hosts == hosts && $0.environment == environment }
            if let index { content.entries[index] = entry } else { content.entries.append(entry) }
            return content.revision
        }
    }

    private func keep(_ identity: Identity, revision: UInt64) {
        content.withLock { content in
            // Another may have been bound meanwhile, and is newer.
            guard let index = content.entries.firstIndex(where: { $0.revision == revision }) else { return }
            content.entries[index].identity = identity
        }
    }

    /// Says once to each who is to know that an identity ends soon.
    private func noteRenewal(of revision: UInt64, _ identity: Identity, asking: Asking?) {
        let end = identity.validity.upperBound
        guard now().addingTimeInterval(Double(renewalLead.components.seconds)) >= end else { return }
        let news = content.withLock { content -> (event: ClientIdentityEvent, toHandler: Bool, toEvaluator: Bool)? in
            guard let index = content.entries.firstIndex(where: { $0.revision == revision }) else { return nil }
            let entry = content.entries[index]
            content.entries[index].hasToldHandler = true
            if asking != nil { content.entries[index].hasToldEvaluator = true }
            return (.renewalRequired(hosts: entry.hosts, end: end), !entry.hasToldHandler, !entry.hasToldEvaluator)
        }
        guard let news else { return }
        if news.toHandler { onEvent(news.event) }
        if news.toEvaluator { report(news.event, asking) }
    }

    private func entry(for host: HostName, in environment: TrustEnvironment?) -> Entry? {
        content.withLock { content in
            let bound = content.entries.filter { $0.hosts.contains { $0.matches(host) } }
            return bound.first { $0.environment != nil && $0.environment == environment }
                ?? bound.first { $0.environment == nil }
        }
    }
}
