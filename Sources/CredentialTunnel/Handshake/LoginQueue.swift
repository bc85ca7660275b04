// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The logins that wait for a verdict, and those that the driver verifies. A value without a clock.
///
/// The places are limited for each source, each network and each login. If there is no place, a new login replaces a
/// login of the party that has the most places, but only if its own party has fewer. No party can thus block the
/// others. The party of a known login is its name, from all sources; the party of any other login is its network.
///
/// Known logins are verified first, but at most ``mostKnownTurns`` of them in a row while another login waits. Of
/// several parties, the one whose last turn is the longest ago is next. Two logins with the same name are never
/// verified at the same time.
struct LoginQueue {
    struct Login {
        let client: ClientID
        let request: Body.ClientAuthRequest
        let source: Endpoint
        /// Whether this login has succeeded from this address recently.
        let isKnown: Bool
        /// The time at which the login's client times out.
        let deadline: Instant
        /// The content of the login's valid ticket, or `nil` to verify the password.
        var resumption: [UInt8]?
    }

    /// The result of adding a login.
    enum Admission: Equatable {
        case queued
        /// The login has replaced the login of this client.
        case displaced(ClientID)
        /// There is no place for the login.
        case full
    }

    private struct Entry {
        let login: Login
        /// An IPv4 address, or the /64 of an IPv6 address.
        let source: IPPrefix
        /// The /24 of an IPv4 address, or the /48 of an IPv6 address.
        let network: IPPrefix

        init(_ login: Login) {
            self.login = login
            source = login.source.address.sourceNetwork
            network = login.source.address.siteNetwork
        }

        var name: String { login.request.login }
        var party: Party { login.isKnown ? .name(name) : .network(network) }
    }

    /// The owner of a share of the places and turns.
    private enum Party: Hashable {
        case name(String)
        case network(IPPrefix)
        case source(IPPrefix)
    }

    private let limits: ServerLimits
    /// The waiting logins, the oldest first.
    private var waiting: [Entry] = []
    /// The logins that the driver verifies, by their clients.
    private var verifying: [ClientID: String] = [:]
    /// The number of the last turn of each party.
    private var turns: [Party: Int] = [:]
    private var lastTurn = 0
    /// The number of known logins since the last turn of another login.
    private var knownTurns = 0

    /// The number of parties whose turns are remembered.
    private static let mostTurns = 8192
    /// The number of known logins that are verified in a row while another login waits.
    private static let mostKnownTurns = 3

    init(_ limits: ServerLimits) { self.limits = limits }

    /// The number of logins without a verdict.
    var count: Int { waiting.count + verifying.count }

    // MARK: - Places

    /// Adds a login behind those that wait.
    mutating func add(_ login: Login) -> Admission {
        let entry = Entry(login)
        // Count known logins and other logins separately, so that strangers behind the same address cannot take the
        // places of known logins, and known logins cannot take theirs.
        let alike = waiting.indices.filter { waiting[$0].login.isKnown == login.isKnown }
        let ofLogin = alike.filter { waiting[$0].name == entry.name }
        if login.isKnown {
            if ofLogin.count >= limits.knownVerifications {
                return replace(ofLogin, with: entry) { .source($0.source) }
            }
        } else {
            let ofSource = alike.filter { waiting[$0].source == entry.source }
            if ofSource.count >= limits.sourceVerifications { return replace(ofSource, with: entry) { .name($0.name) } }
            let ofNetwork = alike.filter { waiting[$0].network == entry.network }
            if ofNetwork.count >= limits.networkVerifications {
                return replace(ofNetwork, with: entry) { .source($0.source) }
            }
            if ofLogin.count >= limits.loginVerifications {
                return replace(ofLogin, with: entry) { .network($0.network) }
            }
        }
        guard count < limits.verifications else {
            // The first login with a known name gets a place even if its party does not have fewer than the others.
            let isUrgent = login.isKnown && ofLogin.isEmpty
            return replace(Array(waiting.indices), with: entry, isUrgent: isUrgent, by: \.party)
        }
        waiting.append(entry)
        return .queued
    }

    /// Replaces the latest login of the party that has the most of the given logins. If several parties have the most,
    /// it prefers a login that is not known.
    /// - Parameter isUrgent: Whether the new login replaces one even if its party has as many as the others.
    private mutating func replace(
        _ indices: [Int], with entry: Entry, isUrgent: Bool = false, by party: (Entry) -> Party
    ) -> Admission {
        var counts: [Party: Int] = [:]
        for index in indices { counts[party(waiting[index]), default: 0] += 1 }
        let own = isUrgent ? 0 : counts[party(entry), default: 0] + 1
        let most = counts.values.max() ?? 0
        let candidates = indices.filter { counts[party(waiting[$0])] == most }
        guard own < most, let index = candidates.last(where: { !waiting[$0].login.isKnown }) ?? candidates.last else {
            return .full
        }
        let displaced = waiting.remove(at: index)
        waiting.append(entry)
        return .displaced(displaced.login.client)
    }

    // MARK: - Turns

    /// Removes the logins whose clients have timed out.
    mutating func removeExpired(at now: Instant) -> [ClientID] {
        let expired = waiting.filter { $0.login.deadline <= now }.map(\.login.client)
        if !expired.isEmpty { waiting.removeAll { $0.login.deadline <= now } }
        return expired
    }

    /// The names of the logins that the driver verifies.
    var names: Set<String> { Set(verifying.values) }

    /// Removes and returns the login that the driver must verify next; `nil` if none waits, or if the driver already
    /// verifies as many as it can.
    /// - Parameter resuming: The logins that must wait, since the driver resumes their names.
    mutating func next(besides resuming: Set<String> = []) -> Login? {
        guard verifying.count < max(limits.verifiers, 1) else { return nil }
        let names = names.union(resuming)
        let ready = waiting.indices.filter { !names.contains(waiting[$0].name) }
        let putsKnownFirst = knownTurns < Self.mostKnownTurns
        guard let index = ready.min(by: { rank($0, putsKnownFirst) < rank($1, putsKnownFirst) }) else { return nil }
        let entry = waiting.remove(at: index)
        verifying[entry.login.client] = entry.name
        knownTurns = entry.login.isKnown ? knownTurns + 1 : 0
        lastTurn += 1
        for party in [entry.party, .source(entry.source)] { turns[party] = lastTurn }
        if turns.count > Self.mostTurns {
            let oldest = lastTurn - Self.mostTurns / 4
            turns = turns.filter { $0.value > oldest }
        }
        return entry.login
    }

    private func rank(_ index: Int, _ putsKnownFirst: Bool) -> (Int, Int, Int, Int) {
        let entry = waiting[index]
        return (
            entry.login.isKnown == putsKnownFirst ? 0 : 1, turns[entry.party] ?? 0, turns[.source(entry.source)] ?? 0,
            index
        )
    }

    /// Records that a login has its verdict, and returns its name; `nil` if the driver was not verifying it.
    mutating func finish(_ client: ClientID) -> String? { verifying.removeValue(forKey: client) }
}
