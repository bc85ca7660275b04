// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Makes and undoes the changes of a tunnel. Each change is written to the journal before it is made.
///
/// Only one thread at a time may use it. While it works, it locks out other processes that change the network in this
/// way.
package final class ChangeLedger {
    let journal: ChangeJournal
    private let system: any NetworkSystem
    private var entries: [ChangeEntry] = []
    /// Whether a method of this object holds the lock of the journals. A nested call while nft runs then does not lock
    /// again.
    private var isLocked = false
    /// Called every few milliseconds, on the same thread, while another process holds the lock of the journals.
    package var whileWaiting: (() -> Void)?

    /// Runs `body` with the lock of the journals. `body` may call other methods of this object.
    func locked<Result>(
        _ body: () throws(LinuxNetworkError) -> Result
    ) throws(LinuxNetworkError) -> Result {
        guard !isLocked else { return try body() }
        return try journal.directory.locked(meanwhile: whileWaiting) { () throws(LinuxNetworkError) in
            isLocked = true
            defer { isLocked = false }
            return try body()
        }
    }

    /// Creates the ledger of a starting tunnel, after undoing the changes that an earlier process of that name left.
    /// - Parameter keepsFirewall: Whether this ledger takes over that process's firewall, without a gap.
    /// - Throws: `.tunnelRunning` if a process of that name is running.
    package convenience init(
        name: String, directory: JournalDirectory, system: any NetworkSystem, owner: JournalOwner = .current,
        keepsFirewall: Bool = false
    ) throws(LinuxNetworkError) {
        try JournalDirectory.validate(name)
        let (journal, entries) = try directory.locked {
            () throws(LinuxNetworkError) -> (ChangeJournal, [ChangeEntry]) in
            if keepsFirewall, let left = try Self.resume(name: name, directory: directory, system: system) {
                try left.undoAllLocked(keepingFirewall: true)
                try left.journal.record(owner, left.entries)
                return (left.journal, left.entries)
            }
            _ = try Self.cleanUpLocked(name: name, directory: directory, system: system)
            return (try ChangeJournal(name: name, directory: directory, owner: owner), [])
        }
        self.init(journal, entries, system: system)
    }

    private init(_ journal: ChangeJournal, _ entries: [ChangeEntry], system: any NetworkSystem) {
        self.journal = journal
        self.system = system
        self.entries = entries
    }

    /// Undoes the changes that an ended process left.
    /// - Returns: The undone changes, as text for users; empty if there were none.
    /// - Throws: `.tunnelRunning` if the process is running; `.incompleteUndo` if a change could not be undone. The
    ///   journal is then kept for another attempt.
    package static func cleanUp(
        name: String, directory: JournalDirectory, system: any NetworkSystem
    ) throws(LinuxNetworkError) -> [String] {
        try JournalDirectory.validate(name)
        return try directory.lockedIfPossible { () throws(LinuxNetworkError) in
            let undone = try cleanUpLocked(
                name: name, directory: directory, system: system,
                keepingFirewall: try directory.heldPolicy(name)?.isUntilReleased == true)
            try directory.releaseWithTunnel(name)
            return undone
        }
    }

    private static func cleanUpLocked(
        name: String, directory: JournalDirectory, system: any NetworkSystem, keepingFirewall: Bool = false
    ) throws(LinuxNetworkError) -> [String] {
        guard let ledger = try resume(name: name, directory: directory, system: system) else { return [] }
        let keeps = keepingFirewall && ledger.firewall != nil
        let undone = ledger.entries.filter { $0.change.number == nil && !(keeps && $0.change.isFirewall) }
        try ledger.undoAllLocked(keepingFirewall: keeps)
        return undone.map(\.summary)
    }

    /// Returns the ledger of an ended process, or `nil` if it has neither a journal nor changes that the kernel shows.
    private static func resume(
        name: String, directory: JournalDirectory, system: any NetworkSystem
    ) throws(LinuxNetworkError) -> ChangeLedger? {
        guard let contents = try directory.read(name) else {
            // A killed process whose journal was deleted.
            let remains = system.remains(of: name)
            guard !remains.isEmpty else { return nil }
            let journal = try ChangeJournal(name: name, directory: directory, owner: .nobody)
            return ChangeLedger(journal, try journal.record(remains), system: system)
        }
        if let owner = contents.owner, owner.isAlive() {
            throw LinuxNetworkError(.tunnelRunning(name: name, processID: owner.processID))
        }
        guard let (journal, _) = try ChangeJournal.resume(name, directory: directory) else { return nil }
        return ChangeLedger(journal, contents.pending, system: system)
    }

    /// Reserves a number for this tunnel alone, even if other tunnels start at the same time. If the firewall of an
    /// earlier process uses a number, the tunnel keeps that number.
    /// - Parameter choose: Chooses a number. Called with the numbers of the other tunnels.
    package func reserve(
        _ choose: (Set<UInt32>) throws(LinuxNetworkError) -> UInt32
    ) throws(LinuxNetworkError) -> UInt32 {
        if let number = entries.lazy.compactMap(\.change.number).first { return number }
        return try locked { () throws(LinuxNetworkError) in
            let others = journal.directory.pendingChanges(except: journal.name)
            let number = try choose(Set(others.compactMap(\.change.number)))
            entries += try journal.record([(.number(number), .nothing)])
            return number
        }
    }

    /// The name of the tunnel's firewall table, or `nil` if it has none.
    var firewall: String? {
        for entry in entries { if case .firewall(let table) = entry.change { return table.name } }
        return nil
    }

    /// Takes over the firewall table that an earlier process left.
    func adopt(_ firewall: Change) {
        guard let index = entries.firstIndex(where: { $0.slot == firewall.slot }) else { return }
        entries[index].change = firewall
        entries[index].isMade = true
    }

    /// The record of the name servers that were set; `nil` before they are set.
    package var resolverRecord: ResolverRecord? {
        for entry in entries { if case .resolver(let record) = entry.previous { return record } }
        return nil
    }

    /// Replaces the record for restoring the name servers. It does not change the name servers.
    func update(_ record: ResolverRecord) throws(LinuxNetworkError) {
        guard let index = entries.firstIndex(where: \.change.isResolver) else { return }
        entries[index].previous = .resolver(record)
        let former = entries[index]
        for var entry in try journal.record([(former.change, former.previous)]) {
            entry.isMade = former.isMade
            entries[index] = entry
        }
        journal.recordUndone(former)
        journal.compactIfLong(entries)
    }

    // MARK: - Making

    /// The changes that this process made and has not undone.
    var made: [Change] { entries.filter(\.isMade).map(\.change) }

    /// A change that failed, and its error.
    package typealias Failure = (change: Change, error: LinuxNetworkError)

    /// Replaces the present plan: undoes the changes that are not in `plan`, and makes the new ones in the order of
    /// `plan`.
    ///
    /// A change with a slot (the firewall table, the name servers) replaces the previous one without a gap. The
    /// firewall is made first and undone last.
    /// - Throws: The first failure. The changes made before it stay, and can be undone.
    package func apply(_ plan: [Change]) throws(LinuxNetworkError) {
        try locked { () throws(LinuxNetworkError) in
            try change(to: plan) { _, error throws(LinuxNetworkError) in throw error }
        }
    }

    /// Replaces the present plan like ``apply(_:)``, but continues after a failure.
    /// - Returns: The failures.
    /// - Throws: `.journal` if the lock of the journals is not available; then nothing was changed.
    func applyAll(_ plan: [Change]) throws(LinuxNetworkError) -> [Failure] {
        try locked { () throws(LinuxNetworkError) in
            var failures: [Failure] = []
            try change(to: plan) { change, error in failures.append((change, error)) }
            return failures
        }
    }

    private func change(to plan: [Change], _ failed: Failed) throws(LinuxNetworkError) {
        let last = entries.map(\.id).max() ?? 0
        try make(plan.filter(\.isFirewall), failed)
        let slots = Set(plan.compactMap(\.slot))
        let wanted = Set(plan)
        let obsolete = entries.filter { entry in
            // A repair while nft ran may have added entries. Keep them.
            if entry.change.number != nil || entry.id > last { return false }
            if let slot = entry.slot { return !slots.contains(slot) }
            return !entry.isMade || !wanted.contains(entry.change)
        }
        try undo(obsolete.reversed().filter { !$0.change.isFirewall }, failed)
        try make(plan.filter { !$0.isFirewall }, failed)
        try undo(obsolete.reversed().filter(\.change.isFirewall), failed)
        journal.compactIfLong(entries)
    }

    /// Makes further changes, and keeps the present ones.
    /// - Throws: The first failure. The changes made before it stay, and can be undone.
    package func add(_ changes: [Change]) throws(LinuxNetworkError) {
        guard !changes.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            try make(changes) { _, error throws(LinuxNetworkError) in throw error }
            journal.compactIfLong(entries)
        }
    }

    /// Undoes some of the changes, the latest first, and keeps the others. Continues after a failure.
    /// - Throws: The first failure.
    package func remove(_ changes: [Change]) throws(LinuxNetworkError) {
        guard !changes.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            var failure: LinuxNetworkError?
            let unwanted = Set(changes)
            try undo(entries.reversed().filter { $0.isMade && unwanted.contains($0.change) }) {
                failure = failure ?? $1
            }
            journal.compactIfLong(entries)
            if let failure { throw failure }
        }
    }

    /// Forgets a change that failed as a whole, so that it need not be undone. The system may refuse that too.
    /// - Returns: `false`, without an effect, if the slot has a change that is made.
    func discardFailed(_ change: Change) -> Bool {
        let isInEffect = entries.contains { entry in
            entry.isMade && (entry.change == change || change.slot.map { $0 == entry.slot } ?? false)
        }
        guard !isInEffect else { return false }
        for entry in entries where entry.change == change { journal.recordUndone(entry) }
        entries.removeAll { $0.change == change }
        return true
    }

    /// Returns those of the applied `changes` that other processes have undone.
    package func undone(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
        try system.missing(of: changes)
    }

    /// Restores changes that other processes have undone. Continues after a failure.
    /// - Returns: The changes that were restored.
    /// - Throws: The error of the first change that failed.
    @discardableResult
    package func restore(_ undone: [Change]) throws(LinuxNetworkError) -> [Change] {
        let repair = repair(undone)
        if let failure = repair.failures.first { throw failure.error }
        return repair.made
    }

    /// The result of a restoration.
    package struct Repair {
        /// The changes that were made.
        package var made: [Change] = []
        /// The changes that could not be made, each with its error.
        package var failures: [Failure] = []
    }

    /// Restores changes that other processes have undone. Continues after a failure, and reports each.
    package func repair(_ undone: [Change]) -> Repair {
        var repair = Repair()
        var unmade: [Change] = []
        let made = Dictionary(
            entries.lazy.filter(\.isMade).map { ($0.change, $0.previous) }, uniquingKeysWith: { first, _ in first })
        // Restore links first: an interface whose MTU is too small for IPv6 accepts no IPv6 address.
        for change in undone.filter(\.isLink) + undone.filter({ !$0.isLink }) {
            // The journal has the entry of this change, so its repair needs no lock, which another process may hold.
            guard let previous = made[change] else {
                unmade.append(change)
                continue
            }
            do throws(LinuxNetworkError) {
                try system.make(change, previous)
                repair.made.append(change)
            } catch {
                // Another process restored it first, or the address exists with another prefix length.
                if error.errno != EEXIST { repair.failures.append((change, error)) }
            }
        }
        // These changes were already in effect when the plan was applied, so the journal has no entries for them.
        for change in unmade {
            var failure: LinuxNetworkError?
            do throws(LinuxNetworkError) {
                // Tunnels share settings and name servers, so these need the lock. Other changes do not, so that a
                // process that keeps the lock does not delay their repair.
                switch change {
                case .setting, .resolver:
                    try locked { () throws(LinuxNetworkError) in try make([change]) { failure = $1 } }
                default: try make([change]) { failure = $1 }
                }
            } catch {
                failure = error
            }
            if let failure { repair.failures.append((change, failure)) } else { repair.made.append(change) }
        }
        return repair
    }

    /// Restores rules that block packets. It continues if the journal cannot be written, for example on a full disk.
    /// The journal then lacks the rule, and a clean-up finds the rule in the kernel.
    /// - Returns: The failures.
    func holdBack(by rules: [Change]) throws(LinuxNetworkError) -> [Failure] {
        var failures: [Failure] = []
        for (rule, error) in repair(try undone(of: rules)).failures {
            guard error.isOfJournal else {
                failures.append((rule, error))
                continue
            }
            do throws(LinuxNetworkError) {
                try system.make(rule, .nothing)
                var entry = journal.unrecorded(rule)
                entry.isMade = true
                entries.append(entry)
            } catch {
                failures.append((rule, error))
            }
        }
        return failures
    }

    /// Undoes some changes until ``restore(_:)`` makes them again, and keeps their journal entries. Continues after a
    /// failure.
    ///
    /// A setting stays if the system shows that another server needs it. The journal of another server does not show that:
    /// the firewall of that server may be lost too.
    /// - Returns: The settings that stay.
    /// - Throws: The first failure.
    @discardableResult
    package func suspend(_ changes: [Change]) throws(LinuxNetworkError) -> [Change] {
        var failure: LinuxNetworkError?
        var kept: [Change] = []
        for entry in entries.reversed() where entry.isMade && changes.contains(entry.change) {
            let isNeeded = system.isNeeded(entry.change, byOthersThan: journal.name)
            guard let previous = isNeeded ? entry.previous.whileShared : entry.previous.unconditional else {
                kept.append(entry.change)
                continue
            }
            do throws(LinuxNetworkError) { try system.undo(entry.change, previous) } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return kept
    }

    /// Called with a change that failed. It throws to stop the others.
    private typealias Failed = (Change, LinuxNetworkError) throws(LinuxNetworkError) -> Void

    /// Makes changes in their order. Consecutive routes are looked up and recorded together, because there may be
    /// thousands.
    private func make(_ changes: [Change], _ failed: Failed) throws(LinuxNetworkError) {
        var made = Set(entries.lazy.filter(\.isMade).map(\.change))
        var routes: [Change] = []
        for change in changes {
            // A plan may contain a slot twice; the last change takes the slot.
            let isMade =
                change.slot == nil
                ? !made.insert(change).inserted : entries.contains { $0.isMade && $0.change == change }
            guard !isMade else { continue }
            if change.isRoute {
                routes.append(change)
            } else {
                try makeNew(routes, failed)
                routes = []
                if !(try replace(change, failed)) { try makeNew([change], failed) }
            }
        }
        try makeNew(routes, failed)
    }

    /// Makes a change that replaces the one in its slot.
    /// - Returns: `false` if no change has the slot.
    private func replace(_ change: Change, _ failed: Failed) throws(LinuxNetworkError) -> Bool {
        guard let slot = change.slot, let index = entries.firstIndex(where: { $0.slot == slot }) else { return false }
        let id = entries[index].id
        do throws(LinuxNetworkError) {
            try system.make(change, entries[index].previous)
            // A repair while nft ran may have added entries, so find the entry again.
            if let index = entries.firstIndex(where: { $0.id == id }) {
                entries[index].change = change
                entries[index].isMade = true
            }
        } catch {
            try failed(change, error)
        }
        return true
    }

    /// Makes changes that have no entry yet, each written to the journal first.
    private func makeNew(_ changes: [Change], _ failed: Failed) throws(LinuxNetworkError) {
        guard let first = changes.first else { return }
        let new: [ChangeEntry]
        do throws(LinuxNetworkError) {
            let states = try system.previousStates(for: changes)
            new = try journal.record(
                zip(changes, states).compactMap { change, state in
                    (state ?? shared(change)).map { (change, inheriting($0, change)) }
                })
        } catch {
            return try failed(first, error)
        }
        // A change that fails may be made in part. It is not marked as made, so `apply` undoes it.
        entries += new
        for entry in new {
            do throws(LinuxNetworkError) {
                try system.make(entry.change, entry.previous)
                // A repair while nft ran may have added entries, so find the entry again.
                if let index = entries.lastIndex(where: { $0.id == entry.id }) { entries[index].isMade = true }
            } catch {
                try failed(entry.change, error)
            }
        }
    }

    /// Returns the state to restore. If another tunnel has made the same change, this is the state before that tunnel's
    /// change.
    private func inheriting(_ previous: PreviousState, _ change: Change) -> PreviousState {
        switch (previous, theirs(change)?.previous) {
        case (.setting, let before?), (.forwarding, let before?): return before
        case (.resolver(var mine), .resolver(let theirs)?):
            (mine.before, mine.replaced) = (theirs.before, theirs.replaced)
            return .resolver(mine)
        default: return previous
        }
    }

    /// Returns the previous state of a setting that another tunnel has already made. The setting must then last as long
    /// as this tunnel.
    private func shared(_ change: Change) -> PreviousState? {
        guard case .setting(_, let value) = change, theirs(change) != nil else { return nil }
        return .setting(value)
    }

    /// The entry of another tunnel that has made the same change. The last tunnel undoes it.
    private func theirs(_ change: Change) -> ChangeEntry? {
        guard change.isShared(with: change) else { return nil }
        return journal.directory.pendingChanges(except: journal.name).first { $0.change.isShared(with: change) }
    }

    // MARK: - Undoing

    /// Undoes everything, the latest change first, and deletes the journal. Continues after a failure.
    /// - Throws: `.incompleteUndo`; the journal is then kept for another attempt.
    package func undoAll() throws(LinuxNetworkError) {
        try journal.directory.lockedIfPossible(needsTrust: false) { () throws(LinuxNetworkError) in
            try undoAllLocked()
        }
    }

    private func undoAllLocked(keepingFirewall: Bool = false) throws(LinuxNetworkError) {
        // Undo the firewall last. It was made first.
        let firewalls = keepingFirewall ? [] : entries.filter(\.change.isFirewall)
        // When the firewall is kept, keep the number that it uses.
        let others = entries.filter { !$0.change.isFirewall && !(keepingFirewall && $0.change.number != nil) }
        var failures: [String] = []
        for entry in others.reversed() + firewalls {
            try undo([entry]) { failures.append("\(entry.summary) (\($1))") }
        }
        guard failures.isEmpty else { throw LinuxNetworkError(.incompleteUndo(steps: failures)) }
        if !keepingFirewall { journal.remove() }
    }

    private func undo(_ undone: [ChangeEntry], _ failed: Failed) throws(LinuxNetworkError) {
        for entry in undone {
            do throws(LinuxNetworkError) {
                try undoInSystem(entry)
                journal.recordUndone(entry)
                if let index = entries.lastIndex(where: { $0.id == entry.id }) { entries.remove(at: index) }
            } catch {
                try failed(entry.change, error)
            }
        }
    }

    /// Undoes a change, except for the part that another tunnel shares.
    private func undoInSystem(_ entry: ChangeEntry) throws(LinuxNetworkError) {
        let isShared = theirs(entry.change) != nil || system.isNeeded(entry.change, byOthersThan: journal.name)
        let previous = isShared ? entry.previous.whileShared : entry.previous
        if let previous { try system.undo(entry.change, previous) }
    }
}
