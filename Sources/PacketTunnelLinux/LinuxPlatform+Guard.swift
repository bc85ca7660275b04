// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import PacketTunnel

/// The policies that are in effect without a process: before a tunnel's start, after its failure, or from boot.
extension LinuxPlatform {
    /// Loads the firewall of a policy for a tunnel that does not run, in the calling thread's network namespace. The
    /// next tunnel of this name takes it over without a gap, and leaves it in place however it ends.
    /// ``cleanUp(name:options:)`` and ``releaseGuard()`` remove it.
    ///
    /// All other changes of an ended process are undone. The firewall uses the local networks of this moment: without a
    /// process, it does not follow new networks and is not loaded again if it is deleted.
    /// - Parameters:
    ///   - policy: The policy. `LeakPolicy.routeBased` blocks nothing.
    ///   - settings: The settings of the future tunnel, for its routes and exceptions.
    ///   - name: The tunnel's name.
    ///   - untilReleased: Whether the policy stays when the tunnel is taken down, until ``release(name:options:)``.
    ///     Tunnels of this name then use at least this policy.
    ///   - options: The options of its host.
    /// - Throws: `.tunnelRunning`: the tunnel's process then adopts the policy if it is stricter than its own.
    ///   `.tunnelConflict` if this tunnel, about to start, and a running one exclude each other.
    public static func hold(
        _ policy: LeakPolicy, settings: TunnelSettings, name: String, untilReleased: Bool = false,
        options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) {
        let directory = JournalDirectory(path: options.journalFolder)
        try JournalDirectory.validate(name)
        let core = LinuxPlatformCore(name: name, options: options, network: try LinuxNetwork(), owner: .nobody)
        let (before, held, isNew) = try directory.locked { () throws(LinuxNetworkError) in
            let before = try directory.heldPolicy(name)
            var held = HeldPolicy(policy: policy, isUntilReleased: untilReleased)
            // A start does not weaken a policy that is held until release. A stricter policy replaces it and is then
            // held until release.
            if !untilReleased, let before, before.isUntilReleased {
                held = HeldPolicy(policy: max(policy, before.policy), isUntilReleased: true)
            }
            try directory.hold(held, name)
            return (before, held, try directory.read(name) == nil)
        }
        do throws(LinuxNetworkError) {
            try core.hold(held.policy, settings, isStart: !untilReleased)
        } catch {
            if case .tunnelRunning = error.code { throw error }
            // After a failure keep the previous policy, or remove the new one.
            try directory.locked { () throws(LinuxNetworkError) in
                guard try directory.heldPolicy(name) == held else { return }
                if let before { try directory.hold(before, name) } else { directory.release(name) }
            }
            if let before {
                try? core.hold(before.policy, settings)
            } else if isNew {
                _ = try? cleanUp(name: name, options: options)
            }
            throw error
        }
    }

    /// Reverts ``hold(_:settings:name:untilReleased:options:)``, and undoes the changes of a tunnel that does not run.
    /// - Returns: The undone changes, as text for users.
    /// - Throws: `.incompleteUndo`; the call can then be repeated.
    public static func release(
        name: String, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> [String] {
        try JournalDirectory.validate(name)
        let directory = JournalDirectory(path: options.journalFolder)
        try directory.locked { () throws(LinuxNetworkError) in directory.release(name) }
        do throws(LinuxNetworkError) {
            return try cleanUp(name: name, options: options)
        } catch {
            // A running tunnel keeps its own policy.
            guard case .tunnelRunning = error.code else { throw error }
            return []
        }
    }

    /// Returns the policy that is held for a tunnel even when it is down, or `nil` if there is none.
    /// - Parameters:
    ///   - name: The tunnel's name.
    ///   - untilReleased: Whether to return only a policy that stays when the tunnel is taken down.
    ///   - options: The options of its host.
    public static func heldPolicy(
        name: String, untilReleased: Bool = false, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> LeakPolicy? {
        let held = try JournalDirectory(path: options.journalFolder).heldPolicy(name)
        return untilReleased && held?.isUntilReleased != true ? nil : held?.policy
    }

    /// Whether the firewall of a held policy exists, in the calling thread's network namespace. Without a process it is
    /// not loaded again if it is deleted.
    public static func isGuardLoaded(name: String) throws(LinuxNetworkError) -> Bool {
        try LinuxNetwork().holdsBack(LeakGuard.tableName(name))
    }

    /// Undoes the remaining changes of this tunnel, which is down: the firewall of a policy that was held until the
    /// user takes the tunnel down. A policy that is held until its release stays.
    public func releaseGuard() async {
        do throws(LinuxNetworkError) {
            let directory = JournalDirectory(path: options.journalFolder)
            try directory.locked { () throws(LinuxNetworkError) in try directory.releaseWithTunnel(name) }
            await tearDown(leavingBlocked: false)
            _ = try LinuxPlatform.cleanUp(name: name, options: options)
        } catch {
            // The error concerns this tunnel's own process, which has already reported it.
            if case .tunnelRunning = error.code { return }
            logger.error("\(error)")
        }
    }
}
