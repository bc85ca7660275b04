// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelIO

/// Decides when to restore a tunnel's name servers that another program has replaced.
struct ResolverKeeper {
    /// The next thing to do.
    enum Action: Equatable {
        /// Nothing is wrong, as far as is known.
        case none
        /// Check again after this time in nanoseconds.
        case checkAgain(after: Int64)
        /// Leave it alone for now, since another program replaces it again and again.
        case pause
        /// Restore the name servers.
        /// - Parameters:
        ///   - isFileGood: As in ``ResolverControl/restore(_:_:isFileGood:)``.
        ///   - replacement: Another program's file, which must be restored after the tunnel; `nil` if none is new.
        case restore(isFileGood: Bool, replacement: ResolverFile?)
    }

    /// The reason why the last restoration failed; `nil` if it did not.
    private(set) var failure: String?
    private var backoff = RepairBackoff()
    /// A file that the manager has made although it lists other servers, such as those of a second tunnel.
    private var accepted: ResolverFile?
    /// The replaced file of the last check, and the number of checks that found one: it may be incomplete.
    private var seen: ResolverFile?
    private var looks = 0
    /// Whether the manager's servers must be compared.
    private var asksManager = false
    /// The time before which nothing is tried again after a failure.
    private var due = Int64.min

    /// The time between two checks of a replaced file, in nanoseconds: some programs write it line by line.
    static let settling: Int64 = 100_000_000
    /// The most checks of a file that changes before each.
    static let mostLooks = 3
    /// The time until a failed restoration is tried again.
    static let retry: Int64 = 2_000_000_000

    /// Decides what to do about the file.
    /// - Parameter hasChanged: Whether a program has changed the file, or one of the manager's.
    mutating func handle(
        _ file: ResolverFile, _ plan: ResolverPlan, _ record: ResolverRecord, hasChanged: Bool, now: Int64
    ) -> Action {
        if hasChanged, plan.manager == .resolved { asksManager = true }
        let isGood = ResolverControl.isInEffect(file, plan, record) || file == accepted
        if isGood {
            (seen, looks) = (nil, 0)
            guard asksManager || failure != nil else { return .none }
        } else if file != seen, looks < Self.mostLooks {
            (seen, looks) = (file, looks + 1)
            return .checkAgain(after: Self.settling)
        }
        guard now >= due else { return .checkAgain(after: due - now) }
        if backoff.isPaused(.resolver(plan), at: now) { return isGood ? .none : .pause }
        // A manager may rewrite the file at the end of its link at any time.
        let isManagers =
            plan.manager != .openresolv && record.original?.link != nil && file.link == record.original?.link
        guard !isGood, !isManagers, !ResolverControl.isManaged(file, record), !file.servers.isEmpty,
            file != record.replaced, file.bytes?.count ?? 0 <= ResolverFile.limit
        else { return .restore(isFileGood: isGood, replacement: nil) }
        return .restore(isFileGood: false, replacement: file)
    }

    /// Takes the result of a restoration.
    /// - Returns: Whether another program's change was undone.
    mutating func finish(
        _ result: Result<ResolverControl.Restoration, LinuxNetworkError>, _ plan: ResolverPlan,
        _ record: ResolverRecord, now: Int64
    ) -> Bool {
        (seen, looks) = (nil, 0)
        switch result {
        case .success(let restoration):
            asksManager = false
            let isInEffect = ResolverControl.isInEffect(restoration.file, plan, record)
            accepted = !isInEffect && ResolverControl.isManaged(restoration.file, record) ? restoration.file : nil
            if isInEffect || accepted != nil {
                failure = nil
            } else {
                let servers = restoration.file.servers.prefix(3).joined(separator: ", ")
                failure =
                    "another program has replaced resolv.conf, which lists \(servers.isEmpty ? "no server" : servers)"
                (seen, looks) = (restoration.file, 1)
            }
            if restoration.isMade { backoff.recordRepair(.resolver(plan), at: now) }
            return restoration.isMade && isInEffect
        case .failure(let error):
            failure = "\(error)"
            due = now + Self.retry
            return false
        }
    }
}
