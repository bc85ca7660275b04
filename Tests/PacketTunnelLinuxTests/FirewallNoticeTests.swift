// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("What the kernel tells of changed firewall tables")
struct FirewallNoticeTests {
    /// A message of nf_tables: `struct nfgenmsg` and attributes.
    private func message(_ kind: UInt16, family: UInt8 = 1, _ attributes: (inout NetlinkRequest) -> Void)
        -> NetlinkReply
    {
        var request = NetlinkRequest(type: 10 << 8 | kind, body: [family, 0, 0, 0])
        attributes(&request)
        return NetlinkReply(type: request.type, body: request.body)
    }

    @Test("A message about the table, or something in it, is told from those about others")
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

    @Test("Who changed rules is told with what ends the change")
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
