// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Synchronization

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A certificate and its private key, with which a client authenticates. Each TLS library has its own type.
public protocol ClientIdentityMaterial: Sendable {
    /// The validity period of the client's own certificate.
    var validity: Range<Date> { get }
}

/// The identity for a host that requests a client certificate.
public enum ClientIdentityResult<Identity: ClientIdentityMaterial>: Sendable {
    /// This identity is sent.
    case success(Identity)
    /// The identity is outside of its validity period. None is sent.
    case renewalRequired
    /// No identity is bound to this host. None is sent.
    case unavailable
}

/// An event of a client identity.
public enum ClientIdentityEvent: Sendable, Equatable {
    /// The host requested an identity, and one was sent.
    case used(host: HostName)
    /// The host requested an identity, and none was sent.
    case missing(host: HostName)
    /// The identity for the hosts expires soon, or has expired, at this date.
    case renewalRequired(hosts: [HostPattern], end: Date)
    /// The identity for the hosts could not be loaded.
    case unloadable(hosts: [HostPattern], ClientIdentityError)

    /// The matching event of an evaluation, or `nil` if there is none.
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
/// An identity is sent to a host only if the host is trusted, the identity is bound to it, and it requests an identity.
/// An identity can be replaced at any time: new handshakes use the new one, and connections that used the earlier one
/// are not reused. (Apple's platforms may resume an earlier TLS session, with the earlier identity.) A loaded identity
/// stays in memory.
///
/// An identity can be bound to one environment. It is used while the evaluator of the server has that environment
/// selected, and takes precedence over an identity for all environments. The evaluator of a session also reports the
/// events of the session's identities.
public final class ClientIdentityStore<Identity: ClientIdentityMaterial>: Sendable {
    /// Loads an identity when a host first requests it.
    public typealias Loader = @Sendable () async throws(ClientIdentityError) -> Identity

    private struct Entry {
        var hosts: [HostPattern]
        /// `nil` means all environments.
        var environment: TrustEnvironment?
        var identity: Identity?
        var loader: Loader?
        var revision: UInt64
        /// Whether the store's own handler was informed that the identity expires soon, and whether a session's
        /// evaluator was.
        var hasNotifiedHandler = false
        var hasNotifiedEvaluator = false
    }

    private struct Content {
        var entries: [Entry] = []
        var revision: UInt64 = 0
    }

    private let content = Mutex(Content())
    private let renewalLead: Duration
    private let now: @Sendable () -> Date
    private let onEvent: @Sendable (ClientIdentityEvent) -> Void

    /// Creates an empty store.
    /// - Parameters:
    ///   - renewalLead: The time before an identity expires at which `.renewalRequired` is reported once (default 14
    ///     days).
    ///   - now: The current time.
    ///   - onEvent: Called with each event, on any thread. It must return quickly.
    public init(
        renewalLead: Duration = .seconds(14 * 86_400), now: @escaping @Sendable () -> Date = { Date() },
        onEvent: @escaping @Sendable (ClientIdentityEvent) -> Void = { _ in }
    ) {
        self.renewalLead = renewalLead
        self.now = now
        self.onEvent = onEvent
    }

    /// Binds `identity` to `hosts`, replacing an earlier binding to exactly these hosts.
    /// - Parameters:
    ///   - identity: The identity to send.
    ///   - hosts: The hosts that may receive it. If several bindings match a host, the first is used.
    ///   - environment: The environment that uses it; `nil` for all environments without another identity.
    public func set(_ identity: Identity, for hosts: [HostPattern], in environment: TrustEnvironment? = nil) {
        reportRenewal(of: put(identity, loader: nil, hosts, environment), identity, requester: nil)
    }

    /// Binds the identity that `loader` loads to `hosts`. The store calls `loader` at the first request, and again at
    /// later requests if it failed.
    public func setLoader(
        for hosts: [HostPattern], in environment: TrustEnvironment? = nil, _ loader: @escaping Loader
    ) {
        _ = put(nil, loader: loader, hosts, environment)
    }

    /// Removes the identity that is bound to exactly these hosts.
    public func remove(for hosts: [HostPattern], in environment: TrustEnvironment? = nil) {
        content.withLock { content in
            content.entries.removeAll { $0.hosts == hosts && $0.environment == environment }
            content.revision &+= 1
        }
    }

    /// Returns the identity that would be sent to `host` now.
    public func result(
        for host: HostName, in environment: TrustEnvironment? = nil
    ) async -> ClientIdentityResult<Identity> {
        await result(for: host, in: environment, requester: nil)
    }

    /// A number that changes with each added or removed binding.
    package var revision: UInt64 { content.withLock { $0.revision } }

    /// A number that changes if another identity applies to `host`, because of a new binding or another environment.
    package func revision(for host: HostName, in environment: TrustEnvironment?) -> UInt64 {
        entry(for: host, in: environment)?.revision ?? 0
    }

    /// Returns the identity for a host that requests one in its handshake, and reports the event.
    /// - Parameter trust: The evaluator of the host: it selects the environment, and receives the event.
    package func identity(requestedBy host: HostName, for trust: TrustEvaluator?) async -> Identity? {
        let requester = trust.map { (trust: $0, environment: $0.configuration.selected) }
        guard case .success(let identity) = await result(for: host, in: requester?.environment, requester: requester)
        else {
            notify(.missing(host: host), requester)
            return nil
        }
        notify(.used(host: host), requester)
        return identity
    }

    /// The evaluator of a host that requests an identity, and its environment.
    private typealias Requester = (trust: TrustEvaluator, environment: TrustEnvironment)

    private func result(
        for host: HostName, in environment: TrustEnvironment?, requester: Requester?
    ) async -> ClientIdentityResult<Identity> {
        guard let entry = entry(for: host, in: environment) else { return .unavailable }
        var identity = entry.identity
        if identity == nil, let loader = entry.loader {
            do {
                let loaded = try await loader()
                store(loaded, revision: entry.revision)
                identity = loaded
            } catch {
                notify(.unloadable(hosts: entry.hosts, error), requester)
            }
        }
        guard let identity else { return .unavailable }
        reportRenewal(of: entry.revision, identity, requester: requester)
        return identity.validity.contains(now()) ? .success(identity) : .renewalRequired
    }

    private func notify(_ event: ClientIdentityEvent, _ requester: Requester?) {
        onEvent(event)
        report(event, requester)
    }

    private func report(_ event: ClientIdentityEvent, _ requester: Requester?) {
        if let requester { requester.trust.report(.identity(event, environment: requester.environment)) }
    }

    /// - Returns: The entry's revision.
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

    private func store(_ identity: Identity, revision: UInt64) {
        content.withLock { content in
            // Do not replace an identity that was bound while the loader ran.
            guard let index = content.entries.firstIndex(where: { $0.revision == revision }) else { return }
            content.entries[index].identity = identity
        }
    }

    /// Reports once to the handler, and once to the evaluator, that an identity expires soon.
    private func reportRenewal(of revision: UInt64, _ identity: Identity, requester: Requester?) {
        let end = identity.validity.upperBound
        guard now().addingTimeInterval(Double(renewalLead.components.seconds)) >= end else { return }
        let notice = content.withLock {
            content -> (event: ClientIdentityEvent, forHandler: Bool, forEvaluator: Bool)? in
            guard let index = content.entries.firstIndex(where: { $0.revision == revision }) else { return nil }
            let entry = content.entries[index]
            content.entries[index].hasNotifiedHandler = true
            if requester != nil { content.entries[index].hasNotifiedEvaluator = true }
            return (
                .renewalRequired(hosts: entry.hosts, end: end), !entry.hasNotifiedHandler, !entry.hasNotifiedEvaluator
            )
        }
        guard let notice else { return }
        if notice.forHandler { onEvent(notice.event) }
        if notice.forEvaluator { report(notice.event, requester) }
    }

    private func entry(for host: HostName, in environment: TrustEnvironment?) -> Entry? {
        content.withLock { content in
            let bound = content.entries.filter { $0.hosts.contains { $0.matches(host) } }
            return bound.first { $0.environment != nil && $0.environment == environment }
                ?? bound.first { $0.environment == nil }
        }
    }
}
