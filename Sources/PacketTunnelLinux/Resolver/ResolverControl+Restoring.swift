// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

// Restores name servers that another program has replaced.
extension ResolverControl {
    /// Whether programs that read resolv.conf use the tunnel's servers. It is also `true` if the file never contained
    /// them, because then programs reach the servers by other means.
    static func isInEffect(_ file: ResolverFile, _ plan: ResolverPlan, _ record: ResolverRecord) -> Bool {
        switch plan.manager {
        case .resolved:
            guard let original = record.original, original.asksResolvedOnly else { return true }
            return file.asksResolvedOnly
        case .openresolv: return file.servers == plan.settings.servers.map(\.description)
        case .debianResolvconf:
            // The file lists the servers of other interfaces after the tunnel's, at most three in all.
            let wanted = plan.settings.servers.prefix(3).map(\.description)
            return file.servers.starts(with: wanted) && (record.original?.link == nil || isManaged(file, record))
        }
    }

    /// Whether the manager of name servers wrote the file, with any servers.
    static func isManaged(_ file: ResolverFile, _ record: ResolverRecord) -> Bool {
        guard file.link == record.original?.link else { return false }
        return record.manager == .resolved ? file.asksResolvedOnly : file.isByResolvconf
    }

    /// The result of a restoration.
    struct Restoration: Hashable, Sendable {
        var file: ResolverFile
        /// Whether the servers were set again.
        var isMade: Bool
    }

    /// Sets the tunnel's servers again. It waits for programs.
    /// - Parameter isFileGood: Whether resolv.conf needs no repair. Then only the servers of systemd-resolved are
    ///   compared.
    func restore(
        _ plan: ResolverPlan, _ record: ResolverRecord, isFileGood: Bool
    ) throws(LinuxNetworkError) -> Restoration {
        if isFileGood {
            guard plan.manager == .resolved, try !hasServers(plan) else {
                return Restoration(file: try ResolverFile(at: file), isMade: false)
            }
        } else if let original = record.original {
            try original.restoreKind(at: file)
        }
        switch plan.manager {
        case .resolved:
            // This also makes systemd-resolved write its files again.
            try set(plan, record)
            if !isFileGood, let original = record.original, try !Self.isInEffect(ResolverFile(at: file), plan, record) {
                try original.restore(at: file)
            }
        case .openresolv, .debianResolvconf:
            let program = try required("resolvconf")
            // `-a` with servers that are already known writes nothing. The status also depends on other programs, so
            // only the file matters.
            _ = try program.run(["-u"], seconds: patience)
            if try !Self.isInEffect(ResolverFile(at: file), plan, record) { try set(plan, record) }
        }
        return Restoration(file: try ResolverFile(at: file), isMade: true)
    }

    /// Whether systemd-resolved has the tunnel's servers and domains for the tunnel's interface.
    private func hasServers(_ plan: ResolverPlan) throws(LinuxNetworkError) -> Bool {
        let program = try required("resolvectl")
        for run in plan.resolvectlRuns.prefix(2) {
            let text = try program.check(Array(run.prefix(2)), seconds: patience)
            // An example of the output: Link 5 (wg0): 10.9.0.1 fd09::1
            let words = text.drop { $0 != ":" }.dropFirst().split(whereSeparator: \.isWhitespace)
            let wanted = run.dropFirst(2).filter { !$0.isEmpty }
            guard Set(words.map { $0.lowercased() }) == Set(wanted.map { $0.lowercased() }) else { return false }
        }
        return true
    }
}
