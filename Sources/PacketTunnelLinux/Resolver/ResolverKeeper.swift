// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelIO

/// Decides when to restore a tunnel's name servers that another program has replaced.
struct ResolverKeeper {
    /// The next action.
    enum Action: Equatable {
        /// No problem is known.
        case none
        /// Check again after this time in nanoseconds.
        case checkAgain(after: Int64)
        /// Do nothing for now, because another program keeps replacing the file.
        case pause
        /// Restore the name servers.
        /// - Parameters:
        ///   - isFileGood: As in ``ResolverControl/restore(_:_:isFileGood:)``.
        ///   - replacement: Another program's file, which must be restored after the tunnel; `nil` if there is no new
        ///     one.
        case restore(isFileGood: Bool, replacement: ResolverFile?)
    }

    /// The error of the last restoration; `nil` if it succeeded.
    private(set) var failure: String?
    private var backoff = RepairBackoff()
    /// A file that the manager wrote although it lists other servers, for example those of a second tunnel.
    private var accepted: ResolverFile?
    /// The replaced file at the last check, and the number of checks that found one. The file may be incomplete.
    private var seen: ResolverFile?
    private var looks = 0
    /// Whether to compare the manager's servers.
    private var asksManager = false
    /// The time before which a failed restoration is not retried.
    private var due = Int64.min

    /// The time between two checks of a replaced file, in nanoseconds, because some programs write it line by line.
    static let settling: Int64 = 100_000_000
    /// The maximum number of checks of a file that keeps changing.
    static let mostLooks = 3
    /// The time until a failed restoration is retried, in nanoseconds.
    static let retry: Int64 = 2_000_000_000

    /// Decides how to handle the present file.
    /// - Parameter hasChanged: Whether a program has changed the file, or a file of the manager.
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
        // The manager may rewrite the file that the link leads to at any time.
        let isManagers =
            plan.manager != .openresolv && record.original?.link != nil && file.link == record.original?.link
        guard !isGood, !isManagers, !ResolverControl.isManaged(file, record), !file.servers.isEmpty,
            file != record.replaced, file.bytes?.count ?? 0 <= ResolverFile.limit
        else { return .restore(isFileGood: isGood, replacement: nil) }
        return .restore(isFileGood: false, replacement: file)
    }

    /// Processes the result of a restoration.
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
