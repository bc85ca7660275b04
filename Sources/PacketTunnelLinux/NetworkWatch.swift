// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import TunnelIO
import TunnelSystem

/// Follows changes of links, addresses, routes, policy rules and one firewall table in the network namespace of the
/// thread that creates it, and also changes of a tunnel's held policy and of resolv.conf. After a change it requests a
/// check, soon, but only a few times a second.
///
/// Sources: rtnetlink(7), inotify(7), linux/netfilter/nfnetlink.h and nf_tables.h.
package final class NetworkWatch: Sendable {
    /// The parts of the network that may have changed.
    package struct Parts: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Links, addresses, routes, rules and settings of the kernel.
        package static let routing = Parts(rawValue: 1)
        /// The firewall table.
        package static let firewall = Parts(rawValue: 2)
        /// The policy that is held whether the tunnel runs or not.
        package static let heldPolicy = Parts(rawValue: 4)
        /// resolv.conf, or a file of the program that writes it.
        package static let resolver = Parts(rawValue: 8)
    }

    private let loop: EventLoop
    private let tunnel: String
    private let resolver: String?
    private let shared: OnLoop

    /// The state that only the loop's thread uses after the start.
    private final class OnLoop: @unchecked Sendable {
        let routing: WatchedSocket?
        let firewall: WatchedSocket?
        let notices: FolderNotices?
        let table: String
        var pending: Parts = []
        /// The times of the last check and of the next one; `nil` if none is scheduled.
        var last = Int64.min / 2
        var due: Int64?
        var timer: EventLoop.Timer?
        var registrations: [EventLoop.Registration] = []
        /// The process that changed the table, and whether the message that names it has yet to arrive.
        var culprit: String?
        var awaitsCulprit = false
        /// Reports changes of the thread's mounts, which inotify does not report; `nil` if nothing depends on them, or if
        /// the system refuses it.
        let mounts: SharedDescriptor?
        var followsMounts = false
        /// Checks which file is at resolv.conf if mounts are not followed, or if inotify does not report every change of it.
        var mountTimer: EventLoop.Timer?
        var resolverIdentity: FileIdentity?
        /// Called with deleted policy rules; with `nil` if notices were lost.
        var rulesDeleted: ((Set<PolicyRule>?) -> Void)?
        /// Called if the table may have lost rules.
        var tableReduced: (() -> Bool)?

        /// `RTNLGRP_IPV4_NETCONF`: changes of `rp_filter` and some other settings of an interface.
        private static let ipv4SettingsGroup: Int32 = 24

        init(table: String, folder: String, settings: [String], resolver: String?) {
            notices = FolderNotices(folder, settings: settings, resolver: resolver)
            mounts = resolver == nil ? nil : Self.openMounts()
            routing = try? WatchedSocket(groups: [
                CTUNNEL_RTNLGRP_LINK, CTUNNEL_RTNLGRP_IPV4_IFADDR, CTUNNEL_RTNLGRP_IPV6_IFADDR,
                CTUNNEL_RTNLGRP_IPV4_ROUTE, CTUNNEL_RTNLGRP_IPV6_ROUTE, CTUNNEL_RTNLGRP_IPV4_RULE,
                CTUNNEL_RTNLGRP_IPV6_RULE, Self.ipv4SettingsGroup,
            ])
            firewall = try? WatchedSocket(
                groups: [CTUNNEL_NFNLGRP_NFTABLES], protocolNumber: CTUNNEL_NETLINK_NETFILTER)
            self.table = table
        }

        private static func openMounts() -> SharedDescriptor? {
            let number = SystemCall.open("/proc/thread-self/mountinfo", O_RDONLY)
            return number < 0 ? nil : SharedDescriptor(OwnedDescriptor(number))
        }
    }

    /// The number of datagrams about the firewall that are read before the table is checked. There may be one for each
    /// deleted rule, and another process may send more at any rate.
    private static let mostNotices = 64

    private final class WatchedSocket: Sendable {
        let socket: NetlinkSocket

        init(groups: [Int32], protocolNumber: Int32 = CTUNNEL_NETLINK_ROUTE) throws(SystemError) {
            socket = try NetlinkSocket(groups: groups, protocolNumber: protocolNumber)
        }
    }

    /// The delay from a change to the check, in nanoseconds, because changes arrive in groups.
    private static let settling: Int64 = 20_000_000
    /// The minimum time between two checks, in nanoseconds.
    private static let interval: Int64 = 250_000_000
    /// The delay of a check that ``scheduleRetry()`` schedules, in nanoseconds.
    private static let retry: Int64 = 1_000_000_000

    /// The parts that cannot be watched, for example without nf_tables or without permission to follow it.
    package var unwatched: Parts {
        var parts: Parts = []
        if shared.routing == nil { parts.insert(.routing) }
        if shared.firewall == nil { parts.insert(.firewall) }
        if shared.notices == nil { parts.formUnion([.heldPolicy, .resolver]) }
        return parts
    }

    /// - Parameters:
    ///   - tunnel: The tunnel's name.
    ///   - folder: The folder of held policies.
    ///   - settings: The files of the kernel settings that the tunnel depends on.
    ///   - resolver: The path of resolv.conf; `nil` if the tunnel does not depend on it.
    package init(
        tunnel: String, folder: JournalDirectory, settings: [String] = [], resolver: String? = nil, loop: EventLoop
    ) throws(LinuxNetworkError) {
        try folder.prepare()
        self.loop = loop
        self.tunnel = tunnel
        self.resolver = resolver
        shared = OnLoop(table: LeakGuard.tableName(tunnel), folder: folder.path, settings: settings, resolver: resolver)
    }

    /// Begins to watch.
    ///   - rulesDeleted: Called on the loop's thread with deleted policy rules as soon as the kernel reports them,
    ///     before `look`; with `nil` if notices of the kernel were lost.
    ///   - tableReduced: Called on the loop's thread as soon as the kernel reports that the table, or a part of it, was
    ///     deleted or changed in place, or if notices were lost. It returns whether `look` must follow soon, even if its last
    ///     call was less than ``interval`` ago.
    ///   - look: Called on the loop's thread with the parts that may have changed, and with the process that changed
    ///     the table if the kernel reports it. It returns the time in nanoseconds after which it must be called again
    ///     even without a change.
    package func start(
        rulesDeleted: (@Sendable (Set<PolicyRule>?) -> Void)? = nil, tableReduced: (@Sendable () -> Bool)? = nil,
        _ look: @escaping @Sendable (Parts, _ culprit: String?) -> Int64?
    ) throws(TunnelIOError) {
        let (shared, loop) = (shared, loop)
        (shared.rulesDeleted, shared.tableReduced) = (rulesDeleted, tableReduced)
        shared.timer = loop.makeTimer { [weak loop] in
            guard let loop else { return }
            let (parts, culprit) = (shared.pending, shared.culprit)
            (shared.pending, shared.culprit, shared.due) = ([], nil, nil)
            let again = look(parts, culprit)
            shared.last = LaneClock.now()
            if let again { Self.schedule(parts, after: again, shared, loop) }
        }
        if let routing = shared.routing {
            let registration = try loop.register(routing.socket.descriptor.number) { [weak loop] _ in
                if let loop { Self.readRoutingNotices(shared, loop) }
            }
            shared.registrations.append(registration)
        }
        if let firewall = shared.firewall {
            let registration = try loop.register(firewall.socket.descriptor.number) { [weak loop] _ in
                if let loop { Self.readFirewallNotices(shared, loop) }
            }
            shared.registrations.append(registration)
        }
        if let notices = shared.notices {
            let registration = try loop.register(notices.descriptor.number) { [weak loop, tunnel, resolver] _ in
                let files = notices.changed()
                guard let loop else { return }
                if files == nil || files?.contains(FolderNotices.setting) == true {
                    Self.schedule(.routing, after: Self.settling, shared, loop)
                }
                if files == nil || files?.contains(FolderNotices.resolver) == true {
                    Self.schedule(.resolver, after: Self.settling, shared, loop)
                    if let resolver { Self.compare(resolver, after: Self.settling, shared, loop) }
                }
                if files == nil || files?.contains(where: { JournalDirectory.tunnel(ofMark: $0) == tunnel }) == true {
                    Self.schedule(.heldPolicy, after: 0, shared, loop)
                }
            }
            shared.registrations.append(registration)
        }
        watchMounts()
    }

    /// Follows which file is at resolv.conf. The kernel reports a change of the mounts as urgent data of mountinfo
    /// (proc(5)).
    private func watchMounts() {
        guard let resolver else { return }
        let (shared, loop) = (shared, loop)
        if let mounts = shared.mounts,
            let registration = try? loop.register(
                mounts.number, for: .end,
                handler: { [weak loop] _ in
                    if let loop { Self.compare(resolver, after: 0, shared, loop) }
                })
        {
            shared.registrations.append(registration)
            shared.followsMounts = true
        }
        shared.resolverIdentity = FileStatus(of: resolver)?.identity
        shared.mountTimer = loop.makeTimer { [weak loop] in
            if let loop { Self.compare(resolver, after: 0, shared, loop) }
        }
        Self.compare(resolver, after: 0, shared, loop)
    }

    /// Requests a check, after a delay in nanoseconds, if another file is at resolv.conf than before. Compares again after a
    /// second if mounts are not followed, or if inotify does not report every change of the file.
    private static func compare(_ resolver: String, after delay: Int64, _ shared: OnLoop, _ loop: EventLoop) {
        let identity = FileStatus(of: resolver)?.identity
        if identity != shared.resolverIdentity {
            shared.resolverIdentity = identity
            shared.notices?.watchResolver()
            schedule(.resolver, after: delay, shared, loop)
        }
        if shared.followsMounts, let notices = shared.notices, notices.isResolverComplete { return }
        guard let timer = shared.mountTimer else { return }
        loop.set(timer, deadline: LaneClock.now() + LaneClock.nanosecondsPerSecond)
    }

    /// Schedules a check of routing and firewall after one second. Call it on the loop's thread.
    package func scheduleRetry() {
        Self.schedule([.routing, .firewall], after: Self.retry, shared, loop)
    }

    /// Schedules a check without delay, because work that the caller waited for has ended. Call it on the loop's
    /// thread.
    func check() {
        Self.schedule([], after: 0, shared, loop)
    }

    /// Reads the kernel's notices about links, addresses, routes and rules while the loop's thread waits for something
    /// else. Call it on that thread.
    func readRoutingNotices() {
        Self.readRoutingNotices(shared, loop)
    }

    private static func readRoutingNotices(_ shared: OnLoop, _ loop: EventLoop) {
        guard let routing = shared.routing else { return }
        var (hasNotices, isLossy) = (false, false)
        var deleted: Set<PolicyRule> = []
        reading: while true {
            switch routing.socket.receive() {
            case .nothing: break reading
            case .overrun: (hasNotices, isLossy) = (true, true)
            case .messages(let messages, _):
                if !messages.isEmpty { hasNotices = true }
                deleted.formUnion(RuleNotice.deleted(messages))
            }
        }
        guard hasNotices else { return }
        // Restore the rules immediately: the check may come a quarter of a second later.
        if isLossy || !deleted.isEmpty { shared.rulesDeleted?(isLossy ? nil : deleted) }
        schedule(.routing, after: settling, shared, loop)
    }

    /// Reads the kernel's notices about the firewall while the loop's thread waits for something else. Call it on that
    /// thread.
    package func readFirewallNotices() {
        Self.readFirewallNotices(shared, loop)
    }

    private static func readFirewallNotices(_ shared: OnLoop, _ loop: EventLoop) {
        guard let firewall = shared.firewall else { return }
        var (isAboutTable, isReduced) = (false, false)
        // The loop calls this again for the datagrams that remain.
        reading: for _ in 0..<mostNotices {
            switch firewall.socket.receive() {
            case .nothing: break reading
            case .overrun: (isAboutTable, isReduced) = (true, true)
            case .messages(let messages, _):
                if FirewallNotice.isAbout(shared.table, messages) {
                    (isAboutTable, shared.awaitsCulprit) = (true, true)
                    if FirewallNotice.reduces(shared.table, messages) { isReduced = true }
                }
                if shared.awaitsCulprit, let culprit = FirewallNotice.culprit(messages) {
                    (shared.culprit, shared.awaitsCulprit) = (culprit, false)
                }
            }
        }
        guard isAboutTable else { return }
        // The check may come a quarter of a second later, and without rules packets pass until then.
        let isUrgent = isReduced && shared.tableReduced?() == true
        schedule(.firewall, after: settling, isUrgent: isUrgent, shared, loop)
    }

    /// Stops watching.
    package func stop() {
        for registration in shared.registrations { loop.unregister(registration) }
        for timer in [shared.timer, shared.mountTimer] { if let timer { loop.remove(timer) } }
    }

    /// - Parameter isUrgent: Whether the check may follow the last one after less than ``interval``.
    private static func schedule(
        _ parts: Parts, after delay: Int64, isUrgent: Bool = false, _ shared: OnLoop, _ loop: EventLoop
    ) {
        shared.pending.formUnion(parts)
        let due = max(LaneClock.now() + delay, isUrgent ? .min : shared.last + interval)
        guard due < shared.due ?? .max, let timer = shared.timer else { return }
        shared.due = due
        loop.set(timer, deadline: due)
    }
}

/// The kernel's messages about policy rules.
enum RuleNotice {
    /// Returns the rules that the messages report as deleted, without rules whose conditions no tunnel uses.
    static func deleted(_ messages: [NetlinkReply]) -> [PolicyRule] {
        messages.filter { $0.type == Netlink.deleteRule }.compactMap { PolicyRule.parse($0.body) }
            .filter(\.isWhole).map(\.rule)
    }
}

/// The kernel's messages about changes of nftables.
enum FirewallNotice {
    /// `NFNL_SUBSYS_NFTABLES`.
    private static let subsystem: UInt16 = 10
    /// `NFT_MSG_NEWTABLE`, which also reports changed flags, and `NFT_MSG_DELTABLE`, `NFT_MSG_DELCHAIN` and
    /// `NFT_MSG_DELRULE`.
    private static let reductions: Set<UInt16> = [0, 2, 5, 8]
    /// `NFT_MSG_NEWGEN`. It ends a group of changes and names the process that made them.
    private static let generation: UInt16 = 15
    /// `struct nfgenmsg`.
    private static let headerLength = 4

    private static func attributes(_ message: NetlinkReply) -> NetlinkAttributes {
        NetlinkReader(bytes: message.body).attributes(from: headerLength)
    }

    /// Whether one of the messages concerns a table of the family `inet`, or something in it. Every kind of message has
    /// the table's name as its first attribute.
    static func isAbout(_ table: String, _ messages: [NetlinkReply]) -> Bool {
        messages.contains { message in
            message.type >> 8 == subsystem && message.type & 0xff != generation && message.body.first == 1
                && attributes(message).text(1) == table
        }
    }

    /// Whether one of the messages may mean that fewer rules of this table have an effect.
    static func reduces(_ table: String, _ messages: [NetlinkReply]) -> Bool {
        isAbout(table, messages.filter { reductions.contains($0.type & 0xff) })
    }

    /// Returns the program and the process that changed rules.
    static func culprit(_ messages: [NetlinkReply]) -> String? {
        guard let message = messages.last(where: { $0.type == subsystem << 8 | generation }) else { return nil }
        let attributes = attributes(message)
        guard let process = attributes.number(2), let name = attributes.text(3) else { return nil }
        return "'\(name)', process \(UInt32(bigEndian: process))"
    }
}
