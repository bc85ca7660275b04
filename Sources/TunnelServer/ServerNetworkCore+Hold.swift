// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelLinux
import TunnelIO

// The suspension of forwarding while the firewall is lost.

extension ServerNetworkCore {
    private static func isForwarding(_ step: Change) -> Bool {
        step.settingPath.map(HostForwarding.paths.contains) == true
    }

    /// Whether packets of clients are received, or forwarded, because of a change.
    static func isExposure(_ step: Change) -> Bool {
        if case .link = step { return true }
        return isForwarding(step)
    }

    /// Stops forwarding if the firewall is lost. Called as soon as the kernel reports that another process may have
    /// reduced it.
    ///
    /// This thread may be in the middle of a change and wait for nft. Therefore it must not use the clients' state, except
    /// for ``ClientNetwork/isUntouched``.
    /// - Returns: Whether it has stopped forwarding.
    func holdAtNotice() -> Bool {
        guard let running else { return false }
        let wasHeld = isHeld
        // If the kernel refuses to list the rules, the notice alone is the reason.
        return holdIfRulesAreMissing(running, orUnknown: true) && !wasHeld
    }

    /// Stops forwarding if rules are missing. The kernel lists the rules without nft, which may take seconds, or hang.
    /// - Parameter orUnknown: Whether it also stops forwarding if the kernel cannot list the rules.
    /// - Returns: Whether rules are missing.
    @discardableResult
    func holdIfRulesAreMissing(_ running: Running, orUnknown: Bool = false) -> Bool {
        // Without a change by another process, no rule is missing. A listing takes longer with each chain of clients.
        guard !running.clients.isUntouched, (try? network.lacksRules(running.firewall.tableName)) ?? orUnknown else {
            return false
        }
        losses.recordLoss(at: LaneClock.now())
        holdForwarding(running)
        return true
    }

    /// Resets forwarding to 0: without rules the server would forward every packet. Sessions continue.
    ///
    /// If forwarding continues, because the host forwarded before the server started or another server needs it, the interfaces
    /// are taken down instead. Repeated calls stop forwarding that another process, or an incomplete restoration, enabled.
    private func holdForwarding(_ running: Running) {
        let wasHeld = isHeld
        isHeld = true
        var isStopped = running.firewall.isOnlyForwarder
        do throws(LinuxNetworkError) {
            let kept = try running.ledger.suspend(running.plan.filter(Self.isForwarding))
            if !kept.isEmpty { isStopped = false }
        } catch {
            isStopped = false
            if !wasHeld { logger.error("\(error)") }
        }
        if !isStopped { takeLinksDown(running) }
    }

    /// Stops forwarding, and takes the interfaces down, so that nothing reaches the server through them. The whole firewall is
    /// loaded again before packets are forwarded.
    func suspendForwarding(_ running: Running) {
        running.clients.invalidateFirewall()
        holdForwarding(running)
        takeLinksDown(running)
    }

    /// The kernel removes the routes with the links, so the next change of clients compares them. Repeated calls take down an
    /// interface that could not be taken down before.
    private func takeLinksDown(_ running: Running) {
        let isFirst = !areLinksDown
        areLinksDown = true
        var isDone = true
        // Each device separately: a missing device must not keep the others up.
        for device in [running.device] + running.further {
            do throws(TunnelIOError) { try device.setUp(false) } catch {
                isDone = false
                if isFirst { logger.error("\(error)") }
            }
        }
        if isFirst, isDone { logger.error("nothing is forwarded until the firewall is in effect again") }
    }

    /// Brings the interfaces up, and forwards packets again, once the firewall is in effect and ``LossBackoff`` permits it.
    /// - Returns: Whether the interfaces may be up.
    func resumeForwarding(_ running: Running) throws(LinuxNetworkError) -> Bool {
        let now = LaneClock.now()
        guard isHeld else {
            losses.recordInEffect(at: now)
            return true
        }
        // Another process may have removed the firewall again since it was loaded.
        guard try !network.lacksRules(running.firewall.tableName) else {
            losses.recordLoss(at: now)
            return !areLinksDown
        }
        losses.recordInEffect(at: now)
        guard losses.remaining(at: now) == 0 else { return !areLinksDown }
        let missing = try missingInterface(running)
        let wereLinksDown = areLinksDown
        if missing == nil {
            // ``lookAtRouting(_:)`` repeats and reports other failures, such as that of an address.
            let repair = running.ledger.repair(try running.ledger.undone(of: running.plan))
            if let failure = repair.failures.first(where: { Self.isExposure($0.change) }) {
                // Links may be up, and forwarding may be on.
                holdForwarding(running)
                if wereLinksDown { takeLinksDown(running) }
                throw failure.error
            }
        }
        (isHeld, areLinksDown) = (false, false)
        // The links may have been taken down after this round began to compare the routes.
        if wereLinksDown { running.clients.invalidateRoutes() }
        // The firewall may have been removed before forwarding began, and the notice read after.
        guard !holdIfRulesAreMissing(running, orUnknown: true) else { return !areLinksDown }
        if let missing {
            // ``lookAtRouting(_:)`` reports it, and restores the rest once it is back.
            logger.error("the firewall is in effect again, but nothing is forwarded: interface \(missing) is missing")
        } else if wereLinksDown {
            logger.notice("the firewall is in effect again, and packets are forwarded")
        }
        return true
    }

    /// The problem of forwarding that is suspended although the firewall is in effect.
    var heldProblem: String {
        if losses.pause > 0, losses.remaining(at: LaneClock.now()) != 0 {
            """
            forwarding: other processes keep removing the firewall; nothing is forwarded until it has been in effect for \
            \(losses.pause / LaneClock.nanosecondsPerSecond) s
            """
        } else if losses.remaining(at: LaneClock.now()) == nil {
            "forwarding: the firewall was lost; nothing is forwarded until it is loaded again"
        } else {
            "forwarding: the network cannot be restored after a loss of the firewall"
                + (resumeProblem.map { ": \($0)" } ?? "")
        }
    }
}
