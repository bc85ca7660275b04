// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel

@testable import PacketTunnelLinux

/// The changes of the tunnels, in place of their journals.
final class BeforeJournals {
    var pending: [String: [Int: NetworkChange]] = [:]
}

/// The ledger as it was with three types for one change.
final class BeforeLedger {
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

    private let name: String
    private let journals: BeforeJournals
    private let system: any BeforeSystem
    private var entries: [Entry] = []
    private var lastID = 0

    init(name: String, journals: BeforeJournals, system: any BeforeSystem) {
        (self.name, self.journals, self.system) = (name, journals, system)
    }

    private func locked<Result>(_ body: () throws(LinuxNetworkError) -> Result) throws(LinuxNetworkError) -> Result {
        try body()
    }

    private func record(_ changes: [NetworkChange]) -> [Int] {
        changes.map { change in
            lastID += 1
            journals.pending[name, default: [:]][lastID] = change
            return lastID
        }
    }

    // MARK: - Making

    /// Makes the network as `plan` wants it: undoes what is not in it any more, and makes what is new, in its order.
    ///
    /// A step that differs only in what it says of the same thing (the firewall's table, the name servers) is done over,
    /// so that there is no moment without it; a firewall comes first and goes last.
    /// - Throws: the first failure. What was made until then stays, and can be undone.
    func apply(_ plan: [NetworkStep]) throws(LinuxNetworkError) {
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
        }
    }

    /// Makes some more of the network as it is wanted, and leaves the rest.
    /// - Throws: the first failure. What was made until then stays, and can be undone.
    func add(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        guard !steps.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            try make(steps)
        }
    }

    /// Undoes some of what was made, the latest first, and leaves the rest. All are tried.
    /// - Throws: the first failure.
    func remove(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
        guard !steps.isEmpty else { return }
        try locked { () throws(LinuxNetworkError) in
            var failure: LinuxNetworkError?
            let unwanted = Set(steps)
            for entry in entries.reversed() where entry.step.map(unwanted.contains) ?? false {
                do throws(LinuxNetworkError) { try undo(entry) } catch { failure = failure ?? error }
            }
            if let failure { throw failure }
        }
    }

    /// The steps, of some that were applied, that others have undone.
    func undone(of steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep] {
        try system.missing(of: steps)
    }

    /// Restores changes that other processes have undone. All are tried.
    /// - Returns: The steps that were restored.
    /// - Throws: The error of the first step that failed.
    @discardableResult
    func restore(_ undone: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep] {
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
    func suspend(_ steps: [NetworkStep]) throws(LinuxNetworkError) {
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
        let ids = record(new.map(\.1))
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
        let id = record([change])[0]
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
        return journals.pending.filter { $0.key != name }.flatMap(\.value.values).first { $0.isShared(with: change) }
    }

    // MARK: - Undoing

    /// Undoes everything, the latest first, and deletes the journal.
    ///
    /// What cannot be undone does not keep the rest from being undone.
    /// - Throws: `.incompleteUndo`, and the journal is kept for another try.
    func undoAll() throws(LinuxNetworkError) {
        try undoAllLocked()
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
        if !keepingFirewall { journals.pending[name] = nil }
    }

    private func undo(_ entry: Entry) throws(LinuxNetworkError) {
        try system.perform(entry.change.inverse(sharedWithOthers: theirs(entry.change) != nil))
        journals.pending[name]?[entry.id] = nil
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
