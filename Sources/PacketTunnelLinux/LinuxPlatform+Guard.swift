// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import PacketTunnel

/// A policy that holds without a process: before a tunnel's start, after its failure, from the machine's start on.
extension LinuxPlatform {
    /// Puts the firewall of a policy in place for a tunnel that does not run, in the calling thread's network namespace. The
    /// tunnel that starts next takes it over without a moment in between, and leaves it behind, whatever it ends with.
    /// ``cleanUp(name:options:)`` takes it away, and so does ``letGo()``.
    ///
    /// What a process that is gone has left otherwise is undone. The local networks are those of this moment: without a
    /// process nobody follows them, and nobody loads the firewall again that others delete.
    /// - Parameters:
    ///   - policy: what may leave. `LeakPolicy.routeBased` holds nothing.
    ///   - settings: the settings that the tunnel will have: its routes, and what is let through.
    ///   - name: the tunnel's.
    ///   - untilReleased: whether it lasts also when the tunnel is taken down, until ``release(name:options:)``. Tunnels
    ///     of this name then have this policy at least.
    ///   - options: those of its host.
    /// - Throws: `.tunnelRunning`: then the tunnel's process takes the policy over, where it is stricter than its own;
    ///   `.tunnelConflict` if a running tunnel and this one, about to start, do not go together.
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
            // What was said to last stays.
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
            // What held before holds on, and nothing else.
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

    /// Takes back what ``hold(_:settings:name:untilReleased:options:)`` said, and undoes what is there of a tunnel that does
    /// not run.
    /// - Returns: what was undone, for people.
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

    /// The policy that holds for a tunnel also when it is down; nil for none.
    /// - Parameters:
    ///   - name: the tunnel's.
    ///   - untilReleased: whether it has to last also when the tunnel is taken down.
    ///   - options: those of its host.
    public static func heldPolicy(
        name: String, untilReleased: Bool = false, options: LinuxHostOptions = LinuxHostOptions()
    ) throws(LinuxNetworkError) -> LeakPolicy? {
        let held = try JournalDirectory(path: options.journalFolder).heldPolicy(name)
        return untilReleased && held?.isUntilReleased != true ? nil : held?.policy
    }

    /// Whether the firewall of a policy that holds for a tunnel is there, in the calling thread's network namespace. Without a
    /// process nobody loads it again.
    public static func isGuardLoaded(name: String) throws(LinuxNetworkError) -> Bool {
        try LinuxNetwork().holdsBack(LeakGuard.tableName(name))
    }

    /// Undoes what is left of this tunnel, which is down: the firewall of a policy that was to hold until the user takes the
    /// tunnel down. One that was to hold until it is released stays.
    public func letGo() async {
        do throws(LinuxNetworkError) {
            let directory = JournalDirectory(path: options.journalFolder)
            try directory.locked { () throws(LinuxNetworkError) in try directory.releaseWithTunnel(name) }
            await tearDown(leavingBlocked: false)
            _ = try LinuxPlatform.cleanUp(name: name, options: options)
        } catch {
            // What could not be undone is its own, and was said.
            if case .tunnelRunning = error.code { return }
            logger.error("\(error)")
        }
    }
}
