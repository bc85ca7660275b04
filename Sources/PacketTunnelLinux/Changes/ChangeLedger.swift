// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Makes the changes that a tunnel wants, each written to the journal first, and undoes them.
///
/// For one thread at a time. While it works no other process of this kind does.
package final class ChangeLedger {
    private struct Entry {
        var id: Int
        /// What the change was made for; nil for a change of a process that is gone.
        var step: NetworkStep?
        var change: NetworkChange

        /// What of its kind there is one of. A firewall is known without its text.
        var slot: NetworkStep.Slot? {
            if case .firewall(let name) = change { .firewall(name) } else { step?.slot }
        }
    }

    private let journal: ChangeJournal
    private let system: any NetworkSystem
    private var entries: [Entry] = []
    /// Whether a method of this object has the lock of the journals. A call while nft runs finds it taken.
    private var isLocked = false

    /// Runs `body`, which may call other methods of this object, with the lock of the journals.
    func locked<Result>(
        _ body: () throws(LinuxNetworkError) -> Result
    ) throws(LinuxNetworkError) -> Result {
        guard !isLocked else { return try body() }
        return try journal.directory.locked { () throws(LinuxNetworkError) in
            isLocked = true
            defer { isLocked = false }
            return try body()
        }
    }

    /// A ledger for a tunnel that starts. What an earlier process of that name has left is undone first.
    /// - Parameter keepsFirewall: whether a firewall that such a process has left stays, and is this one's from then on:
    ///   without a moment in between.
    /// - Throws: `.tunnelRunning` while a process of that name runs.
    package convenience init(
        name: String, directory: JournalDirectory, system: any NetworkSystem, owner: JournalOwner = .current,
        keepsFirewall: Bool = false
    ) throws(LinuxNetworkError) {
        try JournalDirectory.validate(name)
        let (journal, entries) = try directory.locked { () throws(LinuxNetworkError) -> (ChangeJournal, [Entry]) in
            if keepsFirewall, let left = try Self.resume(name: name, directory: directory, system: system) {
                try left.undoAllLocked(keepingFirewall: true)
                try left.journal.record(owner, left.pending)
                return (left.journal, left.entries)
            }
            _ = try Self.cleanUpLocked(name: name, directory: directory, system: system)
            return (try ChangeJournal(name: name, directory: directory, owner: owner), [])
        }
        self.init(journal, entries, system: system)
    }

    private init(
        _ journal: ChangeJournal, _ entries: [Entry], system: any NetworkSystem
    ) {
        self.journal = journal
        self.system = system
        self.entries = entries
    }

    /// Undoes what a process that is gone has left.
    /// - Returns: what was undone, for people; empty where there was nothing.
    /// - Throws: `.tunnelRunning` while the process runs; `.incompleteUndo`, and the journal is kept for another try.
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
        return undone.map(\.change.summary)
    }

    /// The ledger of a process that is gone; nil where there is none.
    private static func resume(
        name: String, directory: JournalDirectory, system: any NetworkSystem
    ) throws(LinuxNetworkError) -> ChangeLedger? {
        guard let contents = try directory.read(name) else { return nil }
        if let owner = contents.owner, owner.isAlive() {
            throw LinuxNetworkError(.tunnelRunning(name: name, processID: owner.processID))
        }
        guard let (journal, _) = try ChangeJournal.resume(name, directory: directory) else { return nil }
        let entries = contents.pending.map { Entry(id: $0.id, step: nil, change: $0.change) }
        return ChangeLedger(journal, entries, system: system)
    }

    private var pending: [(id: Int, change: NetworkChange)] { entries.map { ($0.id, $0.change) } }

    /// Takes a number for this tunnel alone, also among those that start at the same moment. The one that a firewall has which an
    /// earlier process has left stays.
    /// - Parameter choose: is given the numbers of others.
    package func reserve(
        _ choose: (Set<UInt32>) throws(LinuxNetworkError) -> UInt32
    ) throws(LinuxNetworkError) -> UInt32 {
        if let number = entries.lazy.compactMap(\.change.number).first { return number }
        return try locked { () throws(LinuxNetworkError) in
            let others = journal.directory.pendingChanges(except: journal.name)
            let number = try choose(Set(others.compactMap(\.number)))
            let change = NetworkChange.number(number)
            entries.append(Entry(id: try journal.record(change), step: nil, change: change))
            return number
        }
    }

    /// The name of the firewall table that is there; nil for none.
    var firewall: String? {
        for entry in entries { if case .firewall(let name) = entry.change { return name } }
        return nil
    }

    /// Takes the firewall table that an earlier process has left for the one that `step` says.
    func adopt(_ step: NetworkStep) {
        guard let index = entries.firstIndex(where: { $0.slot == step.slot }) else { return }
        entries[index].step = step
    }

    /// What the manager of name servers was told; nil while it was told nothing.
    package var resolverRecord: ResolverRecord? {
        for entry in entries { if case .resolver(let record) = entry.change { return record } }
        return nil
    }

    // MARK: - Making

    /// Makes the network as `plan` wants it: undoes what is not in it any more, and makes what is new, in its order.
    ///
    /// A step that differs only in what it says of the same thing (the firewall's table, the name servers) is done over,
    /// so that there is no moment without it; a firewall comes first and goes last.
    /// - Throws: the first failure. What was made until then stays, and can be undone.
    package func apply(_ plan: [NetworkStep]) throws(LinuxNetworkError) {
        try locked { () throws(LinuxNetworkError) in
            for step in plan where step.isFirewall { try make(step) }
            let slots = Set(plan.compactMap(\.slot))
            let wanted = Set(plan)
            let obsolete = entries.filter { entry in
                if entry.change.number != nil { return false }
                if let slot = entry.slot { return !slots.contains(slot) }
                return entry.step.map { !wanted.contains($0) } ?? true
            }
            for entry in obsolete.reversed() where !entry.change.isFirewall { try undo(entry) }
            try make(plan.filter { !$0.isFirewall })
            for entry in obsolete.reversed() where entry.change.isFirewall { try undo(entry) }
            journal.compactIfLong(pending)
        }
    }

    /// Makes some more of the network as it is wanted, and leaves the rest.
    /// - Throws: the first failure. What was made until then stays, and can be undone.
    package func add(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        guard !steps.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            try make(steps)
            journal.compactIfLong(pending)
        }
    }

    /// Undoes some of what was made, the latest first, and leaves the rest. All are tried.
    /// - Throws: the first failure.
    package func remove(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        guard !steps.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            var failure: LinuxNetworkError?
            let unwanted = Set(steps)
            for entry in entries.reversed() where entry.step.map(unwanted.contains) ?? false {
                do throws(LinuxNetworkError) { try undo(entry) } catch { failure = failure ?? error }
            }
            journal.compactIfLong(pending)
            if let failure { throw failure }
        }
    }

    /// The steps, of some that were applied, that others have undone.
    package func undone(of steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep] {
        try system.missing(of: steps)
    }

    /// Restores changes that other processes have undone. All are tried.
    /// - Returns: The steps that were restored.
    /// - Throws: The error of the first step that failed.
    @discardableResult
    package func restore(_ undone: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep] {
        let repair = repair(undone)
        if let failure = repair.failures.first { throw failure.error }
        return repair.made
    }

    /// The result of a restoration.
    struct Repair {
        /// The steps that were made.
        var made: [NetworkStep] = []
        /// The steps that could not be made, each with its error.
        var failures: [(step: NetworkStep, error: LinuxNetworkError)] = []
    }

    /// Restores changes that other processes have undone. A step that fails does not stop the rest.
    func repair(_ undone: [NetworkStep]) -> Repair {
        var repair = Repair()
        var unmade: [NetworkStep] = []
        let changes = Dictionary(
            entries.compactMap { entry in entry.step.map { ($0, entry.change) } },
            uniquingKeysWith: { first, _ in first })
        // An interface whose MTU is too small for IPv6 takes no address of it: links come first.
        for step in undone.filter(\.isLink) + undone.filter({ !$0.isLink }) {
            // The journal has it, and need not be waited for while somebody else has the lock.
            guard let change = changes[step] else {
                unmade.append(step)
                continue
            }
            do throws(LinuxNetworkError) {
                try system.perform(step.operation(for: change))
                repair.made.append(step)
            } catch {
                // Somebody else was quicker, or the address is there with another prefix.
                if error.errno != EEXIST { repair.failures.append((step, error)) }
            }
        }
        guard !unmade.isEmpty else { return repair }
        // It was so already when it was applied, and is not any more.
        for step in unmade {
            do throws(LinuxNetworkError) {
                switch step {
                case .setting, .resolver: try locked { () throws(LinuxNetworkError) in try make([step]) }
                // No other tunnel shares it, so that a process that keeps the lock delays no repair.
                default: try make([step])
                }
                repair.made.append(step)
            } catch {
                repair.failures.append((step, error))
            }
        }
        return repair
    }

    /// Makes some of what was applied be as it was before, until ``restore(_:)`` makes it again. The journal has it still. All are
    /// tried.
    /// - Throws: the first failure.
    package func suspend(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        var failure: LinuxNetworkError?
        for entry in entries.reversed() where entry.step.map(steps.contains) ?? false {
            do throws(LinuxNetworkError) {
                try system.perform(entry.change.inverse(sharedWithOthers: theirs(entry.change) != nil))
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Makes steps in their order. Routes that follow each other are looked up and written down together: there may be
    /// thousands.
    private func make(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        var made = Set(entries.compactMap(\.step))
        var routes: [NetworkStep] = []
        for step in steps where made.insert(step).inserted {
            if case .route = step {
                routes.append(step)
            } else {
                try makeRoutes(routes)
                routes = []
                try make(step)
            }
        }
        try makeRoutes(routes)
    }

    private func makeRoutes(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        guard !steps.isEmpty else { return }
        let new = zip(steps, try system.changes(for: steps)).compactMap { step, change in change.map { (step, $0) } }
        let ids = try journal.record(new.map(\.1))
        let first = entries.count
        // What fails may be there in part: it is undone, and not taken for made.
        entries += zip(ids, new).map { Entry(id: $0, step: nil, change: $1.1) }
        for (index, (step, change)) in new.enumerated() {
            try system.perform(step.operation(for: change))
            entries[first + index].step = step
        }
    }

    private func make(_ step: NetworkStep) throws(LinuxNetworkError) {
        if let index = entries.firstIndex(where: { $0.step == step || ($0.slot != nil && $0.slot == step.slot) }) {
            guard entries[index].step != step else { return }
            try system.perform(step.operation(for: entries[index].change))
            entries[index].step = step
            return
        }
        guard let found = try system.changes(for: [step]).first.flatMap({ $0 }) ?? shared(step) else { return }
        let change = inheriting(found)
        let id = try journal.record(change)
        // What fails may be there in part: it is undone, and not taken for made.
        entries.append(Entry(id: id, step: nil, change: change))
        try system.perform(step.operation(for: change))
        // A repair while nft ran may have added entries.
        if let index = entries.lastIndex(where: { $0.id == id }) { entries[index].step = step }
    }

    /// The change, with what was there before any tunnel came where another tunnel has made the same one.
    private func inheriting(_ change: NetworkChange) -> NetworkChange {
        guard let other = theirs(change) else { return change }
        switch (change, other) {
        case (.setting(var mine), .setting(let theirs)):
            mine.before = theirs.before
            return .setting(mine)
        case (.resolver(var mine), .resolver(let theirs)):
            mine.before = theirs.before
            return .resolver(mine)
        default: return change
        }
    }

    /// The change of a setting that another tunnel has made already, which then has to last as long as this one.
    private func shared(_ step: NetworkStep) -> NetworkChange? {
        guard case .setting(let path, let value) = step else { return nil }
        let change = NetworkChange.setting(SettingChange(path: path, value: value, before: value))
        return theirs(change) == nil ? nil : change
    }

    /// The same change, where another tunnel has made it too and the last one undoes it.
    private func theirs(_ change: NetworkChange) -> NetworkChange? {
        guard change.isShareable else { return nil }
        return journal.directory.pendingChanges(except: journal.name).first { $0.isShared(with: change) }
    }

    // MARK: - Undoing

    /// Undoes everything, the latest first, and deletes the journal.
    ///
    /// What cannot be undone does not keep the rest from being undone.
    /// - Throws: `.incompleteUndo`, and the journal is kept for another try.
    package func undoAll() throws(LinuxNetworkError) {
        try journal.directory.lockedIfPossible { () throws(LinuxNetworkError) in try undoAllLocked() }
    }

    private func undoAllLocked(keepingFirewall: Bool = false) throws(LinuxNetworkError) {
        var failures: [String] = []
        // The firewall, made first, goes last of all.
        let firewalls = keepingFirewall ? [] : entries.filter(\.change.isFirewall)
        // So does the number that is in it.
        let others = entries.filter { !$0.change.isFirewall && !(keepingFirewall && $0.change.number != nil) }
        for entry in others.reversed() + firewalls {
            do throws(LinuxNetworkError) {
                try undo(entry)
            } catch {
                failures.append("\(entry.change.summary) (\(error))")
            }
        }
        guard failures.isEmpty else { throw LinuxNetworkError(.incompleteUndo(steps: failures)) }
        if !keepingFirewall { journal.remove() }
    }

    private func undo(_ entry: Entry) throws(LinuxNetworkError) {
        try system.perform(entry.change.inverse(sharedWithOthers: theirs(entry.change) != nil))
        journal.recordUndone(entry.id)
        if let index = entries.lastIndex(where: { $0.id == entry.id }) { entries.remove(at: index) }
    }
}

extension NetworkStep {
    /// What of its kind there is one of, so that a new one takes the place of the old.
    enum Slot: Hashable {
        case firewall(String)
        case resolver
        case link(InterfaceReference)
    }

    var slot: Slot? {
        switch self {
        case .firewall(let table): .firewall(table.name)
        case .resolver: .resolver
        case .link(let interface, _): .link(interface)
        default: nil
        }
    }

    var isFirewall: Bool {
        if case .firewall = self { true } else { false }
    }

    var isLink: Bool {
        if case .link = self { true } else { false }
    }
}

extension NetworkChange {
    /// The number that the tunnel alone uses.
    var number: UInt32? {
        if case .number(let number) = self { number } else { nil }
    }

    var isFirewall: Bool {
        if case .firewall = self { true } else { false }
    }

    /// Whether several tunnels may make this change together.
    var isShareable: Bool {
        switch self {
        case .setting, .resolver: true
        default: false
        }
    }

    /// Whether several tunnels make this change together, so that the last one undoes it.
    func isShared(with other: NetworkChange) -> Bool {
        switch (self, other) {
        case (.setting(let mine), .setting(let theirs)): mine.path == theirs.path && mine.value == theirs.value
        case (.resolver(let mine), .resolver(let theirs)): mine.manager == theirs.manager
        default: false
        }
    }

    /// What undoes the change while other tunnels have made it too.
    func inverse(sharedWithOthers isShared: Bool) -> NetworkOperation {
        guard isShared else { return inverse }
        switch self {
        case .setting: return .none
        case .resolver(var record):
            record.before = nil
            return .clearResolver(record)
        default: return inverse
        }
    }
}
