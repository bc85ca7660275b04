// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import PacketTunnel

/// A policy that holds without a process: before a tunnel's start, after its failure, from the machine's start on.
extension LinuxPlatform {
    /// Loads the firewall of a policy for a tunnel that does not run, in the calling thread's network namespace. The tunnel
    /// that starts next takes it over without a gap, and leaves it however it ends. ``cleanUp(name:options:)`` and
    /// ``releaseGuard()`` remove it.
    ///
    /// All other changes of an ended process are undone. The local networks are those of this moment: without a process, new
    /// networks are not followed, and a deleted firewall is not loaded again.
    /// - Parameters:
    ///   - policy: The packets that may leave. `LeakPolicy.routeBased` holds nothing.
    ///   - settings: The settings that the tunnel will have: its routes and exceptions.
    ///   - name: The tunnel's name.
    ///   - untilReleased: Whether the policy stays when the tunnel is taken down, until ``release(name:options:)``. Tunnels
    ///     of this name then have at least this policy.
    ///   - options: The options of its host.
    /// - Throws: `.tunnelRunning`: the tunnel's process then adopts the policy if it is stricter than its own;
    ///   `.tunnelConflict` if a running tunnel and this one, about to start, exclude each other.
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
            // A start does not weaken a policy held until release; a stricter one replaces it, held until release too.
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
            // The policy that was held before stays, and no other is added.
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

    /// Revokes ``hold(_:settings:name:untilReleased:options:)``, and undoes the changes of a tunnel that does not run.
    /// - Returns: The undone changes, for people.
    /// - Throws: `.incompleteUndo`, after which it can be tried again.
    public static func release(
        name: String, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> [String] {
        try JournalDirectory.validate(name)
        let directory = JournalDirectory(path: options.journalFolder)
        try directory.locked { () throws(LinuxNetworkError) in directory.release(name) }
        do throws(LinuxNetworkError) {
            return try cleanUp(name: name, options: options)
        } catch {
            // Its own policy holds while it runs.
            guard case .tunnelRunning = error.code else { throw error }
            return []
        }
    }

    /// Returns the policy that is held for a tunnel even when it is down, or `nil` if there is none.
    /// - Parameters:
    ///   - name: The tunnel's name.
    ///   - untilReleased: Whether only a policy counts that stays when the tunnel is taken down.
    ///   - options: The options of its host.
    public static func heldPolicy(
        name: String, untilReleased: Bool = false, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> LeakPolicy? {
        let held = try JournalDirectory(path: options.journalFolder).heldPolicy(name)
        return untilReleased && held?.isUntilReleased != true ? nil : held?.policy
    }

    /// Whether the firewall of a held policy exists, in the calling thread's network namespace. Without a process it is not
    /// loaded again.
    public static func isGuardLoaded(name: String) throws(LinuxNetworkError) -> Bool {
        try LinuxNetwork().holdsBack(LeakGuard.tableName(name))
    }

    /// Undoes the remaining changes of this tunnel, which is down: the firewall of a policy that was held until the user
    /// takes the tunnel down. A policy that is held until it is released stays.
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
