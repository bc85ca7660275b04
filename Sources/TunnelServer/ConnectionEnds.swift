// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The networks whose connections must end, since their clients were removed. A value without effects.
///
/// A client that gets an address waits for one attempt to end the connections of the address's former client. Later
/// attempts do not include the address while the client has it, since they would end the client's own connections.
struct ConnectionEnds {
    /// The addresses whose connections the next attempt must end.
    private var released: Set<IPPrefix> = []
    /// The networks whose connections an earlier attempt has not ended. None is a client's address, but clients may have addresses in
    /// them.
    private var failed: Set<IPPrefix> = []
    /// The attempt that another thread makes now.
    private(set) var attempt: Attempt?

    /// An attempt to end connections.
    struct Attempt: Equatable, Sendable {
        let networks: Set<IPPrefix>
        /// The addresses of clients in these networks, whose connections stay.
        let kept: Set<IPAddress>
        /// The networks that are not one address. There are few.
        private let wider: Set<IPPrefix>

        init(networks: Set<IPPrefix>, kept: Set<IPAddress>) {
            (self.networks, self.kept) = (networks, kept)
            wider = networks.filter { !ConnectionEnds.isAddress($0) }
        }

        /// Whether the attempt ends the connections of an address.
        func includes(_ prefix: IPPrefix) -> Bool {
            if networks.contains(prefix) { return true }
            return ConnectionEnds.contains(prefix, in: wider)
                && !(ConnectionEnds.isAddress(prefix) && kept.contains(prefix.address))
        }
    }

    /// Whether connections must be ended, and no attempt is being made.
    var isDue: Bool { attempt == nil && !(released.isEmpty && failed.isEmpty) }

    /// Whether an attempt that is being made, or the next one, ends the connections of an address that was released.
    func includes(_ prefix: IPPrefix) -> Bool { released.contains(prefix) || attempt?.includes(prefix) == true }

    /// Makes the next attempt end the connections of removed clients. Networks behind clients are left out, since the
    /// host itself may have connections with them.
    mutating func release(_ prefixes: some Sequence<IPPrefix>) { released.formUnion(prefixes.filter(Self.isAddress)) }

    /// Makes the next attempt that retries end the connections of networks, except for those of clients' addresses. An
    /// earlier process may not have ended them.
    mutating func retry(_ networks: some Sequence<IPPrefix>) { failed.formUnion(networks) }

    /// Records new clients. If an earlier attempt has not ended the connections of a client's address, one more attempt
    /// is made, and the client waits for it.
    mutating func admit(_ prefixes: some Sequence<IPPrefix>) {
        let wider = failed.filter { !Self.isAddress($0) }
        for prefix in prefixes where Self.isAddress(prefix) {
            if failed.remove(prefix) != nil || Self.contains(prefix, in: wider) { released.insert(prefix) }
        }
    }

    /// Begins an attempt. ``finish(isDone:isClient:)`` must be called after it.
    /// - Parameters:
    ///   - retries: Whether connections that an earlier attempt has not ended are tried again.
    ///   - clients: All clients.
    /// - Returns: `nil` if there is nothing to end, or if an attempt is being made.
    mutating func begin(retries: Bool, clients: @autoclosure () -> [IPPrefix]) -> Attempt? {
        guard attempt == nil else { return nil }
        let networks = retries ? released.union(failed) : released
        guard !networks.isEmpty else { return nil }
        var kept: Set<IPAddress> = []
        if !networks.allSatisfy(Self.isAddress) {
            kept = Set(clients().filter { Self.isAddress($0) && !released.contains($0) }.map(\.address))
        }
        released = []
        if retries { failed = [] }
        attempt = Attempt(networks: networks, kept: kept)
        return attempt
    }

    /// Ends the attempt.
    /// - Parameters:
    ///   - isDone: Whether all connections have ended. Otherwise they are tried again, except for those of clients.
    ///   - isClient: Whether a client has this address now.
    mutating func finish(isDone: Bool, isClient: (IPPrefix) -> Bool) {
        guard let attempt else { return }
        self.attempt = nil
        if !isDone { failed.formUnion(attempt.networks.filter { !Self.isAddress($0) || !isClient($0) }) }
    }

    private static func isAddress(_ prefix: IPPrefix) -> Bool { prefix.length == prefix.address.bitWidth }

    /// Whether one of `networks` contains `prefix` and is larger.
    private static func contains(_ prefix: IPPrefix, in networks: Set<IPPrefix>) -> Bool {
        networks.contains { other in
            other.length < prefix.length && other.isIPv6 == prefix.isIPv6 && other.contains(prefix.address)
        }
    }
}
