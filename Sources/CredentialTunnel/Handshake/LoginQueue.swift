// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The logins that wait for a verdict, and those that the driver verifies. A value without a clock.
///
/// Places are limited for each source, each network and each login. If there is no place, the new login replaces one of the party that
/// has the most, if its own party has fewer: no party keeps the others out. Known logins are verified first, then those whose network
/// has waited the longest. Two logins with the same name are never verified at the same time.
struct LoginQueue {
    struct Login {
        let client: ClientID
        let request: Body.ClientAuthRequest
        let source: Endpoint
        /// Whether this login has succeeded from this address recently.
        let isKnown: Bool
        /// The time at which its client gives up.
        let deadline: Instant
    }

    /// The result of adding a login.
    enum Admission: Equatable {
        case queued
        /// It has the place of this client's login.
        case displaced(ClientID)
        /// There is no place for it.
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
    }

    private let limits: ServerLimits
    /// The oldest first.
    private var waiting: [Entry] = []
    /// The logins that the driver verifies, by their clients.
    private var verifying: [ClientID: String] = [:]
    /// The number of the last turn that a source or a network had.
    private var turns: [IPPrefix: Int] = [:]
    private var lastTurn = 0

    /// The number of sources and networks whose turns are remembered.
    private static let mostTurns = 8192

    init(_ limits: ServerLimits) { self.limits = limits }

    /// The number of logins without a verdict.
    var count: Int { waiting.count + verifying.count }

    // MARK: - Places

    /// Adds a login behind those that wait.
    mutating func add(_ login: Login) -> Admission {
        let entry = Entry(login)
        if login.isKnown {
            let own = waiting.count { $0.login.isKnown && $0.name == entry.name && $0.source == entry.source }
            guard own < limits.sourceVerifications else { return .full }
        } else {
            // Places of known logins do not count: strangers behind the same address cannot take them.
            let strangers = waiting.indices.filter { !waiting[$0].login.isKnown }
            let ofSource = strangers.filter { waiting[$0].source == entry.source }
            if ofSource.count >= limits.sourceVerifications { return replace(ofSource, with: entry, by: \.name) }
            let ofNetwork = strangers.filter { waiting[$0].network == entry.network }
            if ofNetwork.count >= limits.networkVerifications { return replace(ofNetwork, with: entry, by: \.source) }
            let ofLogin = strangers.filter { waiting[$0].name == entry.name }
            if ofLogin.count >= limits.loginVerifications { return replace(ofLogin, with: entry, by: \.network) }
        }
        guard count < limits.verifications else {
            return replace(waiting.indices.filter { !waiting[$0].login.isKnown }, with: entry, by: \.network)
        }
        waiting.append(entry)
        return .queued
    }

    /// Replaces the latest login of the party that has the most of these.
    private mutating func replace<Party: Hashable>(
        _ indices: [Int], with entry: Entry, by party: KeyPath<Entry, Party>
    ) -> Admission {
        var counts: [Party: Int] = [:]
        for index in indices { counts[waiting[index][keyPath: party], default: 0] += 1 }
        let own = entry.login.isKnown ? 0 : counts[entry[keyPath: party], default: 0] + 1
        let most = counts.values.max() ?? 0
        guard own < most, let index = indices.last(where: { counts[waiting[$0][keyPath: party]] == most }) else {
            return .full
        }
        let displaced = waiting.remove(at: index)
        waiting.append(entry)
        return .displaced(displaced.login.client)
    }

    // MARK: - Turns

    /// Removes the logins whose clients have given up.
    mutating func removeExpired(at now: Instant) -> [ClientID] {
        let expired = waiting.filter { $0.login.deadline <= now }.map(\.login.client)
        if !expired.isEmpty { waiting.removeAll { $0.login.deadline <= now } }
        return expired
    }

    /// The login that the driver verifies next; `nil` if none waits, or if the driver verifies as many as it can.
    mutating func next() -> Login? {
        guard verifying.count < max(limits.verifiers, 1) else { return nil }
        let names = Set(verifying.values)
        let ready = waiting.indices.filter { !names.contains(waiting[$0].name) }
        guard let index = ready.min(by: { rank($0) < rank($1) }) else { return nil }
        let entry = waiting.remove(at: index)
        verifying[entry.login.client] = entry.name
        lastTurn += 1
        turns[entry.source] = lastTurn
        turns[entry.network] = lastTurn
        if turns.count > Self.mostTurns {
            let oldest = lastTurn - Self.mostTurns / 4
            turns = turns.filter { $0.value > oldest }
        }
        return entry.login
    }

    private func rank(_ index: Int) -> (Int, Int, Int, Int) {
        let entry = waiting[index]
        return (entry.login.isKnown ? 0 : 1, turns[entry.network] ?? 0, turns[entry.source] ?? 0, index)
    }

    /// Records that a login has its verdict.
    /// - Returns: Whether the driver was verifying it.
    mutating func finish(_ client: ClientID) -> Bool { verifying.removeValue(forKey: client) != nil }
}
