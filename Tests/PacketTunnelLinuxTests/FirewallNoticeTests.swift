// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Foundation
import PacketTunnel
import Testing
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("Kernel messages about changed firewall tables")
struct FirewallNoticeTests {
    /// A message of nf_tables: `struct nfgenmsg` and attributes.
    private func message(_ kind: UInt16, family: UInt8 = 1, _ attributes: (inout NetlinkRequest) -> Void)
        -> NetlinkReply
    {
        var request = NetlinkRequest(type: 10 << 8 | kind, body: [family, 0, 0, 0])
        attributes(&request)
        return NetlinkReply(type: request.type, body: request.body)
    }

    @Test("A message about the table, or a part of it, is distinguished from messages about other tables")
    func about() {
        // Table, chain, rule and set, new and deleted.
        for kind: UInt16 in [0, 2, 3, 5, 6, 8, 9, 11] {
            let ours = message(kind) { $0.append(1, "culvert_wg0") }
            let others = message(kind) { $0.append(1, "culvert_wg00") }
            let bridge = message(kind, family: 7) { $0.append(1, "culvert_wg0") }
            #expect(FirewallNotice.isAbout("culvert_wg0", [others, ours]))
            #expect(!FirewallNotice.isAbout("culvert_wg0", [others, bridge]))
        }
        #expect(!FirewallNotice.isAbout("culvert_wg0", []))
    }

    @Test("Only a deleted table, chain or rule, and a table's flags, may reduce the effect of a table")
    func reduces() {
        for kind in UInt16(0)...16 {
            let ours = message(kind) { $0.append(1, "culvert_wg0") }
            let others = message(kind) { $0.append(1, "culvert_wg00") }
            #expect(FirewallNotice.reduces("culvert_wg0", [others, ours]) == [0, 2, 5, 8].contains(kind), "\(kind)")
            #expect(!FirewallNotice.reduces("culvert_wg0", [others]), "\(kind)")
        }
    }

    @Test("The end-of-change message names the process that changed the rules")
    func culprit() {
        let end = message(15, family: 0) { request in
            request.append(1, UInt32(7).bigEndian)
            request.append(2, UInt32(4711).bigEndian)
            request.append(3, "nft")
        }
        let rule = message(8) { $0.append(1, "culvert_wg0") }
        #expect(FirewallNotice.culprit([rule, end]) == "'nft', process 4711")
        #expect(FirewallNotice.culprit([rule]) == nil)
        #expect(!FirewallNotice.isAbout("\u{0}", [end]), "a generation's number is no table's name")
    }

    @Test("A message that is cut off anywhere tells nothing, and traps nowhere")
    func truncated() {
        let whole = message(15, family: 0) { request in
            request.append(2, UInt32(4711).bigEndian)
            request.append(3, "nft")
        }
        for length in 0..<whole.body.count {
            let cut = NetlinkReply(type: whole.type, body: Array(whole.body.prefix(length)))
            #expect(FirewallNotice.culprit([cut]) == nil, "\(length)")
            #expect(!FirewallNotice.isAbout("nft", [cut]))
        }
    }
}

@Suite("Inotify messages about a folder")
struct FolderNoticesTests {
    private func event(_ name: String, mask: UInt32 = 0x80, padding: Int = 1) -> [UInt8] {
        let text = Array(name.utf8) + [UInt8](repeating: 0, count: padding)
        return [1, 0, 0, 0] + (0..<4).map { UInt8(truncatingIfNeeded: mask >> (8 * $0)) } + [0, 0, 0, 0]
            + [UInt8(text.count), 0, 0, 0] + text
    }

    @Test("The names of files are read, zeros after them not among them")
    func names() {
        let events = event("home.guard", padding: 6) + event("a") + event("wg0.guard.new")
        #expect(FolderNotices.events(in: events[...]).map(\.name) == ["home.guard", "a", "wg0.guard.new"])
        #expect(FolderNotices.events(in: [][...]).isEmpty)
        #expect(FolderNotices.events(in: event("", mask: 0x4000, padding: 0)[...]).map(\.isLoss) == [true])
    }

    @Test("A message that is cut off anywhere traps nowhere")
    func truncated() {
        let whole = event("home.guard", padding: 6)
        for length in whole.indices {
            let names = FolderNotices.events(in: whole[..<length]).map(\.name)
            #expect(names == (length < 16 ? [] : [String("home.guard".prefix(length - 16))]))
        }
    }

    @Test("A tunnel's mark is distinguished from other files")
    func marks() {
        #expect(JournalDirectory.tunnel(ofMark: "home.guard") == "home")
        for file in ["home.guard.new", "home.journal", "guard", ""] {
            #expect(JournalDirectory.tunnel(ofMark: file) == nil)
        }
    }

    @Test("A new file in a folder is reported")
    func real() throws {
        let folder = try JournalFolder()
        try folder.directory.prepare()
        let notices = try #require(FolderNotices(folder.directory.path))
        #expect(notices.changed() == [])
        try folder.directory.hold(HeldPolicy(policy: .everything, isUntilReleased: true), "cvt0")
        #expect(notices.changed() == ["cvt0.guard"])
        #expect(FolderNotices("/nowhere") == nil)
    }

    @Test(
        "Each way of replacing resolv.conf, or the file at the end of its link, is reported, and no other file of its folder"
    )
    func resolver() throws {
        let folder = try JournalFolder()
        try folder.directory.prepare()
        let path = folder.directory.path
        for name in ["etc", "run", "journals"] {
            try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
        }
        let file = "\(path)/etc/resolv.conf"
        let notices = try #require(FolderNotices("\(path)/journals", resolver: file))
        func changes(_ script: String) throws -> Set<String>? {
            _ = try SystemProgram.required("sh").check(["-ec", "cd \(path)/etc; \(script)"])
            return notices.changed().map(Set.init)
        }
        for script in [
            "echo 1 > resolv.conf", "echo 2 >> resolv.conf", "echo 3 > new; mv new resolv.conf",
            "echo 4 >> resolv.conf",
            "ln -s ../run/link new; mv new resolv.conf", "echo 5 > ../run/link",
            "echo 6 > ../run/new; mv ../run/new ../run/link",
            "echo 7 >> resolv.conf", "rm ../run/link", "rm resolv.conf", "ln -s ../run/link resolv.conf",
        ] {
            #expect(try changes(script) == [FolderNotices.resolver], "\(script)")
        }
        #expect(try changes("echo > other; mv other another; rm another") == [])
        try FileManager.default.moveItem(atPath: "\(path)/etc/resolv.conf", toPath: "\(path)/journals/a.guard")
        #expect(notices.changed().map(Set.init) == [FolderNotices.resolver, "a.guard"])
    }

    /// The folders `etc`, `run`, `static` and `journals`, and resolv.conf in `etc`.
    private func resolverFolder() throws -> (JournalFolder, path: String) {
        let folder = try JournalFolder()
        try folder.directory.prepare()
        let path = ResolverControl.target(folder.directory.path) ?? folder.directory.path
        for name in ["etc", "static", "run", "journals"] {
            try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
        }
        return (folder, path)
    }

    @Test("The watches are complete unless a second link, or a missing file, is on the way to resolv.conf")
    func complete() throws {
        let (folder, path) = try resolverFolder()
        defer { withExtendedLifetime(folder) {} }
        let notices = try #require(FolderNotices("\(path)/journals", resolver: "\(path)/etc/resolv.conf"))
        #expect(!notices.isResolverComplete, "the file is missing")
        func set(_ script: String) throws {
            _ = try SystemProgram.required("sh").check(["-ec", "cd \(path)/etc; rm -f resolv.conf; \(script)"])
            notices.watchResolver()
        }
        for script in [
            "echo > resolv.conf", "echo > ../run/a; ln -s ../run/a resolv.conf", "ln -s \(path)/run/a resolv.conf",
        ] {
            try set(script)
            #expect(notices.isResolverComplete, "\(script)")
        }
        for script in [
            "ln -s ../run/a ../static/b; ln -s ../static/b resolv.conf",
            "ln -s run ../c; ln -s \(path)/c/a resolv.conf",
            "ln -s ../run/missing resolv.conf",
        ] {
            try set(script)
            #expect(!notices.isResolverComplete, "\(script)")
        }
    }

    @Test("The watches are not complete if the system refuses one of them")
    func refused() throws {
        let (folder, path) = try resolverFolder()
        defer { withExtendedLifetime(folder) {} }
        _ = try SystemProgram.required("sh").check(
            ["-ec", "cd \(path)/etc; echo > ../run/a; ln -s ../run/a resolv.conf"])
        for refused in ["etc", "run/a", "run"] {
            let notices = try #require(
                FolderNotices("\(path)/journals", resolver: "\(path)/etc/resolv.conf") { descriptor, file, events in
                    guard file != "\(path)/\(refused)" else { return -1 }
                    return unsafe inotify_add_watch(descriptor, file, events)
                })
            #expect(!notices.isResolverComplete, "\(refused)")
        }
    }

    @Test("A new name of a folder above resolv.conf, or above the file that it links to, is reported")
    func renamed() throws {
        let (folder, path) = try resolverFolder()
        defer { withExtendedLifetime(folder) {} }
        _ = try SystemProgram.required("sh").check(
            ["-ec", "cd \(path)/etc; mkdir ../run/d; echo > ../run/d/a; ln -s ../run/d/a resolv.conf"])
        let notices = try #require(FolderNotices("\(path)/journals", resolver: "\(path)/etc/resolv.conf"))
        for (old, new) in [("run/d", "run/e"), ("run/e", "run/d"), ("run", "walk"), ("walk", "run"), ("etc", "ect")] {
            _ = try SystemProgram.required("mv").check(["\(path)/\(old)", "\(path)/\(new)"])
            #expect(notices.changed().map(Set.init) == [FolderNotices.resolver], "\(old)")
        }
    }
}
