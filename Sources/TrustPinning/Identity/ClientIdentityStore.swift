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
public final class ClientIdentityStore<Identity: ClientIdentityMaterial>: Sendable {
    /// Loads an identity when a host first asks for it.
    public typealias Loader = @Sendable () async throws(ClientIdentityError) -> Identity

    private struct Entry {
        var hosts: [HostPattern]
        var identity: Identity?
        var loader: Loader?
        var revision: UInt64
        var hasAskedForRenewal = false
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
    public func set(_ identity: Identity, for hosts: [HostPattern]) {
        put(identity, loader: nil, hosts: hosts)
        noteRenewal(of: identity, hosts: hosts)
    }

    /// Binds what `loader` loads to `hosts`. It is called when one of them first asks, and again after it has failed.
    public func setLoader(for hosts: [HostPattern], _ loader: @escaping Loader) {
        put(nil, loader: loader, hosts: hosts)
    }

    /// Takes away the identity that was bound to exactly these hosts.
    public func remove(for hosts: [HostPattern]) {
        content.withLock { content in
            content.entries.removeAll { $0.hosts == hosts }
            content.revision &+= 1
        }
    }

    /// What would be shown to `host` if it asked now.
    public func result(for host: HostName) async -> ClientIdentityResult<Identity> {
        guard let entry = entry(for: host) else { return .unavailable }
        var identity = entry.identity
        if identity == nil, let loader = entry.loader {
            do {
                let loaded = try await loader()
                keep(loaded, revision: entry.revision)
                identity = loaded
            } catch {
                onEvent(.unloadable(hosts: entry.hosts, error))
            }
        }
        guard let identity else { return .unavailable }
        noteRenewal(of: identity, hosts: entry.hosts)
        return identity.validity.contains(now()) ? .success(identity) : .renewalRequired
    }

    /// A number that changes whenever anything is bound, or no longer is.
    package var revision: UInt64 { content.withLock { $0.revision } }

    /// A number that changes whenever another identity is bound to `host`.
    package func revision(for host: HostName) -> UInt64 { entry(for: host)?.revision ?? 0 }

    /// The identity for a host that asks in its handshake, with the event that goes with it.
    package func identity(askedBy host: HostName) async -> Identity? {
        guard case .success(let identity) = await result(for: host) else {
            onEvent(.missing(host: host))
            return nil
        }
        onEvent(.used(host: host))
        return identity
    }

    private func put(_ identity: Identity?, loader: Loader?, hosts: [HostPattern]) {
        content.withLock { content in
            content.revision &+= 1
            let entry = Entry(hosts: hosts, identity: identity, loader: loader, revision: content.revision)
            if let index = content.entries.firstIndex(where: { $0.hosts == hosts }) {
                content.entries[index] = entry
            } else {
                content.entries.append(entry)
            }
        }
    }

    private func keep(_ identity: Identity, revision: UInt64) {
        content.withLock { content in
            // Another may have been bound meanwhile, and is newer.
            guard let index = content.entries.firstIndex(where: { $0.revision == revision }) else { return }
            content.entries[index].identity = identity
        }
    }

    private func noteRenewal(of identity: Identity, hosts: [HostPattern]) {
        let end = identity.validity.upperBound
        guard now().addingTimeInterval(Double(renewalLead.components.seconds)) >= end else { return }
        let isNew = content.withLock { content in
            guard let index = content.entries.firstIndex(where: { $0.hosts == hosts }) else { return false }
            defer { content.entries[index].hasAskedForRenewal = true }
            return !content.entries[index].hasAskedForRenewal
        }
        if isNew { onEvent(.renewalRequired(hosts: hosts, end: end)) }
    }

    private func entry(for host: HostName) -> Entry? {
        content.withLock { content in
            content.entries.first { $0.hosts.contains { $0.matches(host) } }
        }
    }
}
