// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Makes the changes that a tunnel wants, each written to the journal first, and undoes them.
///
/// For one thread at a time. While it works no other process of this kind does.
package final class ChangeLedger {
    let journal: ChangeJournal
    private let system: any NetworkSystem
    private var entries: [ChangeEntry] = []
    /// Whether a method of this object has the lock of the journals. A call while nft runs finds it taken.
    private var isLocked = false
    /// Called every few milliseconds while another process has the lock of the journals, on the same thread.
    var whileWaiting: (() -> Void)?

    /// Runs `body`, which may call other methods of this object, with the lock of the journals.
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

    /// Creates the ledger of a tunnel that starts, after it undoes the changes that an earlier process of that name left.
    /// - Parameter keepsFirewall: Whether this ledger takes over such a process's firewall, without a gap.
    /// - Throws: `.tunnelRunning` while a process of that name runs.
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
    /// - Returns: The changes, for people; empty if there were none.
    /// - Throws: `.tunnelRunning` while the process runs; `.incompleteUndo` if a change could not be undone: the journal is
    ///   kept for another try.
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

    /// Returns the ledger of an ended process, or `nil` if there is none.
    private static func resume(
        name: String, directory: JournalDirectory, system: any NetworkSystem
    ) throws(LinuxNetworkError) -> ChangeLedger? {
        guard let contents = try directory.read(name) else { return nil }
        if let owner = contents.owner, owner.isAlive() {
            throw LinuxNetworkError(.tunnelRunning(name: name, processID: owner.processID))
        }
        guard let (journal, _) = try ChangeJournal.resume(name, directory: directory) else { return nil }
        return ChangeLedger(journal, contents.pending, system: system)
    }

    /// Reserves a number for this tunnel alone, even if other tunnels start at the same moment. If an earlier process's
    /// firewall uses a number, that number is kept.
    /// - Parameter choose: Called with the numbers of the other tunnels.
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

    /// The name of the firewall table that exists, or `nil` if there is none.
    var firewall: String? {
        for entry in entries { if case .firewall(let table) = entry.change { return table.name } }
        return nil
    }

    /// Takes the firewall table that an earlier process has left for this one.
    func adopt(_ firewall: Change) {
        guard let index = entries.firstIndex(where: { $0.slot == firewall.slot }) else { return }
        entries[index].change = firewall
        entries[index].isMade = true
    }

    /// The record of the name servers that were set, or `nil` before that.
    package var resolverRecord: ResolverRecord? {
        for entry in entries { if case .resolver(let record) = entry.previous { return record } }
        return nil
    }

    /// Replaces the record by which the name servers are restored. It does not change them.
    func update(_ record: ResolverRecord) throws(LinuxNetworkError) {
        guard let index = entries.firstIndex(where: \.change.isResolver) else { return }
        entries[index].previous = .resolver(record)
        let former = entries[index]
        for var entry in try journal.record([(former.change, former.previous)]) {
            entry.isMade = former.isMade
            entries[index] = entry
        }
        journal.recordUndone(former.id)
        journal.compactIfLong(entries)
    }

    // MARK: - Making

    /// The changes that this process made and has not undone.
    var made: [Change] { entries.filter(\.isMade).map(\.change) }

    /// A change that failed, and its error.
    package typealias Failure = (change: Change, error: LinuxNetworkError)

    /// Replaces the present plan: undoes the changes that are not in `plan`, and makes the new ones, in its order.
    ///
    /// A change of a slot (the firewall's table, the name servers) replaces the one before without a gap. The firewall is
    /// made first and undone last.
    /// - Throws: The first failure. The changes made until then stay, and can be undone.
    package func apply(_ plan: [Change]) throws(LinuxNetworkError) {
        try locked { () throws(LinuxNetworkError) in
            try change(to: plan) { _, error throws(LinuxNetworkError) in throw error }
        }
    }

    /// Replaces the present plan like ``apply(_:)``. A change that fails does not stop the others.
    /// - Returns: the failures.
    /// - Throws: `.journal` without the lock of the journals; then nothing was changed.
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
            // A repair while nft ran may have added entries.
            if entry.change.number != nil || entry.id > last { return false }
            if let slot = entry.slot { return !slots.contains(slot) }
            return !entry.isMade || !wanted.contains(entry.change)
        }
        try undo(obsolete.reversed().filter { !$0.change.isFirewall }, failed)
        try make(plan.filter { !$0.isFirewall }, failed)
        try undo(obsolete.reversed().filter(\.change.isFirewall), failed)
        journal.compactIfLong(entries)
    }

    /// Makes more changes, and keeps the present ones.
    /// - Throws: The first failure. The changes made until then stay, and can be undone.
    package func add(_ changes: [Change]) throws(LinuxNetworkError) {
        guard !changes.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            try make(changes) { _, error throws(LinuxNetworkError) in throw error }
            journal.compactIfLong(entries)
        }
    }

    /// Undoes some of the changes, the latest first, and keeps the rest. All are tried.
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

    /// Returns the changes, among some that were applied, that other processes have undone.
    package func undone(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
        try system.missing(of: changes)
    }

    /// Restores changes that other processes have undone. All are tried.
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

    /// Restores changes that other processes have undone. A change that fails does not stop the rest.
    package func repair(_ undone: [Change]) -> Repair {
        var repair = Repair()
        var unmade: [Change] = []
        let made = Dictionary(
            entries.lazy.filter(\.isMade).map { ($0.change, $0.previous) }, uniquingKeysWith: { first, _ in first })
        // An interface whose MTU is too small for IPv6 takes no address of it: links come first.
        for change in undone.filter(\.isLink) + undone.filter({ !$0.isLink }) {
            // The journal has its entry, so the repair need not wait for a lock that another process holds.
            guard let previous = made[change] else {
                unmade.append(change)
                continue
            }
            do throws(LinuxNetworkError) {
                try system.make(change, previous)
                repair.made.append(change)
            } catch {
                // Another process was faster, or the address exists with another prefix length.
                if error.errno != EEXIST { repair.failures.append((change, error)) }
            }
        }
        // These changes were in effect before they were applied, so the journal has no entry of them.
        for change in unmade {
            var failure: LinuxNetworkError?
            do throws(LinuxNetworkError) {
                // Tunnels share settings and name servers. Other changes need no lock, so that a process that keeps it delays no
                // repair.
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

    /// Restores rules that hold packets back. A journal that cannot be written, on a full disk, does not stop it: it lacks the
    /// rule then, and cleaning up finds the rule in the kernel.
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

    /// Undoes some changes until ``restore(_:)`` makes them again. Their journal entries stay. All are tried.
    /// - Throws: The first failure.
    package func suspend(_ changes: [Change]) throws(LinuxNetworkError) {
        var failure: LinuxNetworkError?
        for entry in entries.reversed() where entry.isMade && changes.contains(entry.change) {
            var suspended = entry
            suspended.previous = entry.previous.unconditional
            do throws(LinuxNetworkError) { try undoInSystem(suspended) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    /// Called with a change that failed; throws to stop.
    private typealias Failed = (Change, LinuxNetworkError) throws(LinuxNetworkError) -> Void

    /// Makes changes in their order. Routes that follow each other are looked up and written down together: there may be
    /// thousands.
    private func make(_ changes: [Change], _ failed: Failed) throws(LinuxNetworkError) {
        var made = Set(entries.lazy.filter(\.isMade).map(\.change))
        var routes: [Change] = []
        for change in changes {
            // A plan may give a slot twice; the last change has it.
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

    /// Makes a change in the place of the one that has its slot.
    /// - Returns: `false` if no change has the slot.
    private func replace(_ change: Change, _ failed: Failed) throws(LinuxNetworkError) -> Bool {
        guard let slot = change.slot, let index = entries.firstIndex(where: { $0.slot == slot }) else { return false }
        let id = entries[index].id
        do throws(LinuxNetworkError) {
            try system.make(change, entries[index].previous)
            // A repair while nft ran may have added entries.
            if let index = entries.firstIndex(where: { $0.id == id }) {
                entries[index].change = change
                entries[index].isMade = true
            }
        } catch {
            try failed(change, error)
        }
        return true
    }

    /// Makes changes that no entry has, each written to the journal first.
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
        // A change that fails may be made in part: `apply` undoes it, since it is not marked as made.
        entries += new
        for entry in new {
            do throws(LinuxNetworkError) {
                try system.make(entry.change, entry.previous)
                // A repair while nft ran may have added entries.
                if let index = entries.lastIndex(where: { $0.id == entry.id }) { entries[index].isMade = true }
            } catch {
                try failed(entry.change, error)
            }
        }
    }

    /// The state before a change: the one before any tunnel made it, if another tunnel has made the same one.
    private func inheriting(_ previous: PreviousState, _ change: Change) -> PreviousState {
        switch (previous, theirs(change)?.previous) {
        case (.setting, let before?), (.forwarding, let before?): return before
        case (.resolver(var mine), .resolver(let theirs)?):
            (mine.before, mine.replaced) = (theirs.before, theirs.replaced)
            return .resolver(mine)
        default: return previous
        }
    }

    /// The state before a setting that another tunnel has made already, which then has to last as long as this one.
    private func shared(_ change: Change) -> PreviousState? {
        guard case .setting(_, let value) = change, theirs(change) != nil else { return nil }
        return .setting(value)
    }

    /// The entry of another tunnel that has made the change too; the last one undoes it.
    private func theirs(_ change: Change) -> ChangeEntry? {
        guard change.isShared(with: change) else { return nil }
        return journal.directory.pendingChanges(except: journal.name).first { $0.change.isShared(with: change) }
    }

    // MARK: - Undoing

    /// Undoes everything, the latest first, and deletes the journal.
    ///
    /// A change that cannot be undone does not keep the rest from being undone.
    /// - Throws: `.incompleteUndo`, and the journal is kept for another try.
    package func undoAll() throws(LinuxNetworkError) {
        try journal.directory.lockedIfPossible(needsTrust: false) { () throws(LinuxNetworkError) in
            try undoAllLocked()
        }
    }

    private func undoAllLocked(keepingFirewall: Bool = false) throws(LinuxNetworkError) {
        // The firewall, made first, goes last of all.
        let firewalls = keepingFirewall ? [] : entries.filter(\.change.isFirewall)
        // So does the number that is in it.
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
                journal.recordUndone(entry.id)
                if let index = entries.lastIndex(where: { $0.id == entry.id }) { entries.remove(at: index) }
            } catch {
                try failed(entry.change, error)
            }
        }
    }

    /// Undoes a change, except for a part that another tunnel shares.
    private func undoInSystem(_ entry: ChangeEntry) throws(LinuxNetworkError) {
        let previous = theirs(entry.change) == nil ? entry.previous : entry.previous.whileShared
        if let previous { try system.undo(entry.change, previous) }
    }
}
