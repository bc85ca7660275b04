// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import PacketTunnel
import TunnelIO

/// Repairs of the tunnel's name servers. The manager's programs may take long, so they run on a separate thread.
extension LinuxPlatformCore {
    /// A restoration in progress.
    typealias Restoration = BackgroundWork<ResolverControl.Restoration>

    /// The time after which a restoration that has not ended counts as a problem, in nanoseconds.
    private static let slowness = LaneClock.nanosecondsPerSecond

    /// Returns the change that sets the tunnel's name servers; `nil` if they are left out.
    func resolverStep(_ dns: DNSSettings) throws(LinuxNetworkError) -> Change? {
        // Look for a mount now, because another program may mount a file over resolv.conf later.
        if resolverInForce == nil { resolverMount = MountedFile.mount(over: network.resolver.file) }
        let manager = try network.askResolver { (resolver) throws(LinuxNetworkError) in try resolver.manager() }
        if dns.servers.isEmpty, manager != .resolved {
            // resolvconf replaces all servers by the tunnel's. Without servers no name could be resolved.
            logger.warning(
                "ignoring search domains without name servers: only systemd-resolved supports them")
            return nil
        }
        guard let manager else {
            return try lacking(LinuxNetworkError(.noResolverManager))
        }
        if !dns.matchDomains.isEmpty, manager != .resolved {
            return try lacking(
                LinuxNetworkError(
                    .resolverLimit(
                        manager: manager.title,
                        reason: "cannot ask the tunnel's servers for some domains only; systemd-resolved can")))
        }
        let step = Change.resolver(ResolverPlan(interface: try interface(), manager: manager, settings: dns))
        if let resolverInForce, resolverInForce != step {
            lookForCover()
            guard !isResolverCovered else {
                throw LinuxNetworkError(.kernelSetting(path: network.resolver.file), errno: EBUSY)
            }
        }
        return step
    }

    private func lacking(_ error: LinuxNetworkError) throws(LinuxNetworkError) -> Change? {
        guard options.nameServers == .wanted else { throw error }
        logger.warning("the tunnel's name servers are left out: \(error)")
        return nil
    }

    /// Checks resolv.conf, and restores the name servers if another program has replaced it.
    func checkResolver(_ parts: NetworkWatch.Parts, _ ledger: ChangeLedger) {
        guard let step = resolverInForce, case .resolver(let plan) = step, let record = ledger.resolverRecord else {
            return
        }
        if parts.contains(.resolver) {
            isResolverChanged = true
        }
        if parts.contains(.resolver) || pollsResolver { lookForCover() }
        guard !isCovered(step, plan, record) else { return }
        guard !isRestoring(step, plan, record) else { return }
        let hasChanged = isResolverChanged
        isResolverChanged = false
        attempt(step.summary) { () throws(LinuxNetworkError) in
            let file = try ResolverFile(at: network.resolver.file)
            let action = resolverKeeper.handle(file, plan, record, hasChanged: hasChanged, now: LaneClock.now())
            if action != .pause, let failure = resolverKeeper.failure { report(step.summary, failure) }
            switch action {
            case .none: if pollsResolver { check.repeatAfter(Self.slowness) }
            case .checkAgain(let time): check.repeatAfter(time)
            case .pause: reportContest(step)
            case .restore(let isFileGood, let replacement):
                // Another program may have mounted a file over it since the last check.
                lookForCover()
                guard !isCovered(step, plan, record) else { return }
                var record = record
                if let replacement { keep(replacement, &record, ledger) }
                restoreResolver(plan, record, isFileGood: isFileGood)
                if !isRestoring(step, plan, record), let failure = resolverKeeper.failure {
                    report(step.summary, failure)
                }
            }
        }
    }

    private func lookForCover() {
        let mount = MountedFile.mount(over: network.resolver.file)
        isResolverCovered = mount != nil && mount != resolverMount
    }

    /// Reports a file that another program has mounted over resolv.conf since the start. A write would change that
    /// file, and not the one that ``ChangeLedger`` restores.
    private func isCovered(_ step: Change, _ plan: ResolverPlan, _ record: ResolverRecord) -> Bool {
        guard isResolverCovered else { return false }
        let path = network.resolver.file
        let file = try? ResolverFile(at: path)
        if file.map({ ResolverControl.isInEffect($0, plan, record) }) != true {
            report(
                step.summary,
                "another file is mounted over \(path), so programs do not ask the tunnel's name servers; unmount it with "
                    + "'umount \(path)'")
        }
        return true
    }

    /// Handles the result of a restoration that has ended.
    /// - Returns: `true` while it is in progress.
    private func isRestoring(_ step: Change, _ plan: ResolverPlan, _ record: ResolverRecord) -> Bool {
        guard let restoration else { return false }
        guard let result = restoration.result else {
            reportSlowness(of: restoration, step)
            return true
        }
        self.restoration = nil
        if resolverKeeper.finish(result, plan, record, now: LaneClock.now()) { logRepair([step]) }
        return false
    }

    /// Stores another program's resolv.conf, in order to restore it after the tunnel. A failure does not stop the
    /// repair.
    private func keep(_ replacement: ResolverFile, _ record: inout ResolverRecord, _ ledger: ChangeLedger) {
        record.replaced = replacement
        do throws(LinuxNetworkError) {
            try ledger.update(record)
        } catch {
            logger.error("\(network.resolver.file), as another program has written it, may be lost: \(error)")
        }
    }

    private func restoreResolver(_ plan: ResolverPlan, _ record: ResolverRecord, isFileGood: Bool) {
        var control = network.resolver
        control.purpose = .nameServers
        restoration = BackgroundWork(name: "culvert-dns", isHere: wake == nil, whenDone: wake ?? {}) {
            [control] () throws(LinuxNetworkError) in
            try control.restore(plan, record, isFileGood: isFileGood)
        }
    }

    private func reportSlowness(of restoration: Restoration, _ step: Change) {
        let rest = restoration.start + Self.slowness - LaneClock.now()
        if rest <= 0 {
            report(step.summary, resolverKeeper.failure ?? "their manager has not answered yet")
        } else {
            check.repeatAfter(rest)
        }
    }

    /// Waits for a restoration in progress, before the settings of the manager change.
    func awaitRestoration() {
        _ = restoration?.wait(meanwhile: network.whileWaiting)
        restoration = nil
        resolverKeeper = ResolverKeeper()
    }
}
