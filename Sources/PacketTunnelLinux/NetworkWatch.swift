// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import TunnelIO
import TunnelSystem

/// Hears of each change of links, addresses, routes, policy rules and one firewall table in the network namespace of the
/// thread that made it, and of the policy that is held for a tunnel; and calls for a look at them: soon, and not more often
/// than a few times a second however much changes.
///
/// Sources: rtnetlink(7), inotify(7), linux/netfilter/nfnetlink.h and nf_tables.h.
package final class NetworkWatch: Sendable {
    /// What may have changed.
    package struct Parts: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Links, addresses, routes and rules.
        package static let routing = Parts(rawValue: 1)
        /// The table.
        package static let firewall = Parts(rawValue: 2)
        /// The policy that is to hold whether or not the tunnel runs.
        package static let heldPolicy = Parts(rawValue: 4)
    }

    private let loop: EventLoop
    private let tunnel: String
    private let shared: OnLoop

    /// What is used on the loop's thread only, after the start.
    private final class OnLoop: @unchecked Sendable {
        let routing: WatchedSocket?
        let firewall: WatchedSocket?
        let notices: FolderNotices?
        let table: String
        var pending: Parts = []
        /// When the last look was, and when the next one is due; nil for none.
        var last = Int64.min / 2
        var due: Int64?
        var timer: EventLoop.Timer?
        var registrations: [EventLoop.Registration] = []
        /// Who changed the table, and whether the message that says so is still to come.
        var culprit: String?
        var awaitsCulprit = false

        init(table: String, folder: String, settings: [String]) {
            notices = FolderNotices(folder, settings: settings)
            routing = try? WatchedSocket(groups: [
                CTUNNEL_RTNLGRP_LINK, CTUNNEL_RTNLGRP_IPV4_IFADDR, CTUNNEL_RTNLGRP_IPV6_IFADDR,
                CTUNNEL_RTNLGRP_IPV4_ROUTE, CTUNNEL_RTNLGRP_IPV6_ROUTE, CTUNNEL_RTNLGRP_IPV4_RULE,
                CTUNNEL_RTNLGRP_IPV6_RULE,
            ])
            firewall = try? WatchedSocket(
                groups: [CTUNNEL_NFNLGRP_NFTABLES], protocolNumber: CTUNNEL_NETLINK_NETFILTER)
            self.table = table
        }
    }

    private final class WatchedSocket: Sendable {
        let socket: NetlinkSocket

        init(groups: [Int32], protocolNumber: Int32 = CTUNNEL_NETLINK_ROUTE) throws(SystemError) {
            socket = try NetlinkSocket(groups: groups, protocolNumber: protocolNumber)
        }
    }

    /// From a change to the look: changes come in groups.
    private static let settling: Int64 = 20_000_000
    /// The least time between two looks.
    private static let interval: Int64 = 250_000_000
    /// From settings that could not be brought into force to a look at those before.
    private static let retry: Int64 = 1_000_000_000

    /// Parts that cannot be watched here (without nf_tables, or the right to follow it).
    package var unwatched: Parts {
        var parts: Parts = []
        if shared.routing == nil { parts.insert(.routing) }
        if shared.firewall == nil { parts.insert(.firewall) }
        if shared.notices == nil { parts.insert(.heldPolicy) }
        return parts
    }

    /// - Parameters:
    ///   - tunnel: its name.
    ///   - folder: where policies are held.
    ///   - settings: The files of the kernel settings that the tunnel depends on.
    package init(
        tunnel: String, folder: JournalDirectory, settings: [String] = [], loop: EventLoop
    ) throws(LinuxNetworkError) {
        try folder.prepare()
        self.loop = loop
        self.tunnel = tunnel
        shared = OnLoop(table: LeakGuard.tableName(tunnel), folder: folder.path, settings: settings)
    }

    /// Begins to watch.
    /// - Parameter look: called on the loop's thread with what may have changed, and who changed the table where that is
    ///   known. It returns in how many nanoseconds it is called again, where nothing else changes.
    package func start(_ look: @escaping @Sendable (Parts, _ culprit: String?) -> Int64?) throws(TunnelIOError) {
        let (shared, loop) = (shared, loop)
        shared.timer = loop.makeTimer { [weak loop] in
            guard let loop else { return }
            let (parts, culprit) = (shared.pending, shared.culprit)
            (shared.pending, shared.culprit, shared.due) = ([], nil, nil)
            let again = look(parts, culprit)
            shared.last = LaneClock.now()
            if let again { Self.note(parts, after: again, shared, loop) }
        }
        if let routing = shared.routing {
            try register(routing) { messages in
                messages == nil || messages?.isEmpty == false ? .routing : []
            }
        }
        if let firewall = shared.firewall {
            try register(firewall) { messages in
                guard let messages else { return .firewall }
                let isAboutTable = FirewallNotice.isAbout(shared.table, messages)
                if isAboutTable { shared.awaitsCulprit = true }
                if shared.awaitsCulprit, let culprit = FirewallNotice.culprit(messages) {
                    (shared.culprit, shared.awaitsCulprit) = (culprit, false)
                }
                return isAboutTable ? .firewall : []
            }
        }
        if let notices = shared.notices {
            let registration = try loop.register(notices.descriptor.number) { [weak loop, tunnel] _ in
                let files = notices.changed()
                guard let loop else { return }
                if files == nil || files?.contains(FolderNotices.setting) == true {
                    Self.note(.routing, after: Self.settling, shared, loop)
                }
                if files == nil || files?.contains(where: { JournalDirectory.tunnel(ofMark: $0) == tunnel }) == true {
                    Self.note(.heldPolicy, after: 0, shared, loop)
                }
            }
            shared.registrations.append(registration)
        }
    }

    /// Has everything looked at soon, since something may not be as it should. On the loop's thread.
    package func lookAgain() {
        Self.note([.routing, .firewall], after: Self.retry, shared, loop)
    }

    /// Watches no more.
    package func stop() {
        for registration in shared.registrations { loop.unregister(registration) }
        if let timer = shared.timer { loop.remove(timer) }
    }

    /// - Parameter parts: what messages tell of; nil are messages that were lost.
    private func register(
        _ watched: WatchedSocket, _ parts: @escaping @Sendable ([NetlinkReply]?) -> Parts
    ) throws(TunnelIOError) {
        let shared = shared
        let registration = try loop.register(watched.socket.descriptor.number) { [weak loop] _ in
            while true {
                let found: Parts
                switch watched.socket.receive() {
                case .nothing: return
                case .overrun: found = parts(nil)
                case .messages(let messages, _): found = parts(messages)
                }
                if let loop, !found.isEmpty { Self.note(found, after: Self.settling, shared, loop) }
            }
        }
        shared.registrations.append(registration)
    }

    private static func note(_ parts: Parts, after delay: Int64, _ shared: OnLoop, _ loop: EventLoop) {
        shared.pending.formUnion(parts)
        let due = max(LaneClock.now() + delay, shared.last + interval)
        guard due < shared.due ?? .max, let timer = shared.timer else { return }
        shared.due = due
        loop.set(timer, deadline: due)
    }
}

/// Reports files that are put into a folder, and writes to kernel settings, by inotify(7). A write is reported only if it comes
/// through the same proc file system. A user may have few of these descriptors, so one serves both.
final class FolderNotices: Sendable {
    let descriptor: OwnedDescriptor
    private let folder: String
    private let settings: [String]
    /// The name that stands for any setting.
    static let setting = ""

    /// - Returns: `nil` if the folder cannot be watched.
    init?(_ folder: String, settings: [String] = []) {
        (self.folder, self.settings) = (folder, settings)
        let number = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard number >= 0 else { return nil }
        descriptor = OwnedDescriptor(number)
        guard watch() else { return nil }
    }

    private func watch() -> Bool {
        for setting in settings { unsafe _ = inotify_add_watch(descriptor.number, setting, UInt32(IN_MODIFY)) }
        return unsafe inotify_add_watch(descriptor.number, folder, UInt32(IN_MOVED_TO)) >= 0
    }

    /// The names of the new files, and ``setting`` for settings that were written; `nil` if some events were lost.
    func changed() -> [String]? {
        var names: [String] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe SystemCall.read(descriptor.number, into: $0) }
            guard count > 0 else { return names }
            guard let more = Self.names(in: buffer[..<count]) else {
                // The folder itself may have been removed, and made anew.
                _ = watch()
                return nil
            }
            names += more
        }
    }

    /// `struct inotify_event`: watch, mask, cookie, length of what follows, and a name with zeros after it.
    static func names(in bytes: ArraySlice<UInt8>) -> [String]? {
        var (names, rest): ([String], ArraySlice<UInt8>) = ([], bytes)
        while rest.count >= 16 {
            func number(_ offset: Int) -> UInt32 {
                (0..<4).reduce(0) { $0 | UInt32(rest[rest.startIndex + offset + $1]) << (8 * UInt32($1)) }
            }
            guard number(4) & UInt32(IN_Q_OVERFLOW | IN_IGNORED) == 0 else { return nil }
            let name = rest.dropFirst(16).prefix(Int(number(12)))
            names.append(String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))
            rest = rest.dropFirst(16 + name.count)
        }
        return names
    }
}

/// What the kernel says when rules of nftables change.
enum FirewallNotice {
    /// `NFNL_SUBSYS_NFTABLES`.
    private static let subsystem: UInt16 = 10
    /// `NFT_MSG_NEWGEN`, which ends what belongs together and says who did it.
    private static let generation: UInt16 = 15
    /// `struct nfgenmsg`.
    private static let headerLength = 4

    private static func attributes(_ message: NetlinkReply) -> NetlinkAttributes {
        NetlinkReader(bytes: message.body).attributes(from: headerLength)
    }

    /// Whether one of these is about a table, or something in it, of the family `inet`: every kind of message has the
    /// table's name as its first attribute.
    static func isAbout(_ table: String, _ messages: [NetlinkReply]) -> Bool {
        messages.contains { message in
            message.type >> 8 == subsystem && message.type & 0xff != generation && message.body.first == 1
                && attributes(message).text(1) == table
        }
    }

    /// The program and process that changed rules.
    static func culprit(_ messages: [NetlinkReply]) -> String? {
        guard let message = messages.last(where: { $0.type == subsystem << 8 | generation }) else { return nil }
        let attributes = attributes(message)
        guard let process = attributes.number(2), let name = attributes.text(3) else { return nil }
        return "'\(name)', process \(UInt32(bigEndian: process))"
    }
}
