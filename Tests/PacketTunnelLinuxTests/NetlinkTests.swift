// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("Netlink requests and replies about routes and rules")
struct NetlinkTests {
    @Test("A request is a header, its fixed part and padded attributes")
    func request() {
        var request = NetlinkRequest(type: 24, flags: 0x400, body: [1, 2, 3, 4])
        request.append(5, [9])
        request.append(6, UInt32(0x0403_0201))
        request.append(7, "ab")
        let message = request.message(sequence: 7)
        #expect(
            message == [
                44, 0, 0, 0, 24, 0, 1, 4, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 5, 0, 9, 0, 0, 0, 8, 0, 6, 0, 1,
                2,
                3, 4, 7, 0, 7, 0, 97, 98, 0, 0,
            ])
        let replies = NetlinkReply.parse(message + message)
        #expect(replies.count == 2)
        #expect(replies.allSatisfy { $0.type == 24 && $0.sequence == 7 })
        let attributes = NetlinkReader(bytes: replies[0].body).attributes(from: 4)
        #expect(attributes[5] == [9])
        #expect(attributes.number(6) == 0x0403_0201)
        #expect(attributes.text(7) == "ab")
    }

    @Test("A route is found again by the kernel's description")
    func foreignRoute() throws {
        for text in ["10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0"] {
            let route = Route(to: try IPPrefix(text), interface: 9, table: 51_820, metric: 5)
            let foreign = ForeignRoute(body: route.request(type: Netlink.newRoute, flags: 0).body)
            #expect(foreign.key?.destination == route.destination)
            #expect(foreign.key?.table == 51_820)
            #expect(foreign.key?.metric == 5)
            #expect(foreign.interface == 9)
            // Made again, it is the same.
            #expect(ForeignRoute(body: foreign.restoration.body).key == foreign.key)
        }
    }

    @Test("A rule is read as it was written; one with more to it is not taken for ours")
    func rule() throws {
        let rules = [
            PolicyRule(isIPv6: false, priority: 3, table: 51_820, mark: 51_820, isInverted: true),
            PolicyRule(isIPv6: true, priority: 4, table: 254, suppressedPrefixLength: 0),
        ]
        for rule in rules {
            var request = rule.request(type: Netlink.newRule, flags: 0)
            let found = try #require(PolicyRule.parse(request.body))
            #expect(found.rule == rule)
            #expect(found.isWhole)
            // FRA_IIFNAME
            request.append(3, "eth0")
            #expect(PolicyRule.parse(request.body)?.isWhole == false)
        }
    }

    @Test("Rules for local addresses and VRF devices divert no packets, and conditions limit a rule to some packets")
    func divertingRules() throws {
        func found(_ rule: PolicyRule, _ attribute: (kind: UInt16, value: [UInt8])? = nil) throws -> PolicyRule.Found {
            var request = rule.request(type: Netlink.newRule, flags: 0)
            if let attribute { request.append(attribute.kind, attribute.value) }
            return try #require(PolicyRule.parse(request.body))
        }
        let main = PolicyRule(isIPv6: false, priority: 10, table: 254)
        #expect(try found(main).divertsPackets && found(main).isForAllPackets)
        #expect(try !found(PolicyRule(isIPv6: true, priority: 0, table: 255)).divertsPackets)
        #expect(try found(.prohibition(isIPv6: false, priority: 9, mark: 7)).divertsPackets)
        // FRA_L3MDEV
        #expect(try !found(main, (19, [1])).divertsPackets)
        // FRA_UID_RANGE
        #expect(try !found(main, (20, [0, 0, 0, 0, 9, 0, 0, 0])).isForAllPackets)
        #expect(try !found(PolicyRule(isIPv6: false, priority: 9, table: 254, mark: 7)).isForAllPackets)
        #expect(try found(PolicyRule(isIPv6: false, priority: 9, table: 7, mark: 7, isInverted: true)).isForAllPackets)
    }

    @Test("Notices of deleted rules are read, and other messages and other programs' rules left out")
    func deletedRules() {
        let rule = PolicyRule(isIPv6: true, priority: 4, table: 51_820, mark: 51_820, isInverted: true)
        var foreign = rule.request(type: Netlink.deleteRule, flags: 0)
        foreign.append(3, "eth0")
        let body = rule.request(type: Netlink.deleteRule, flags: 0).body
        let messages = [
            NetlinkReply(type: Netlink.newRule, sequence: 0, body: body),
            NetlinkReply(type: Netlink.deleteRule, sequence: 0, body: foreign.body),
            NetlinkReply(type: Netlink.deleteRule, sequence: 0, body: [2]),
        ]
        #expect(RuleNotice.deleted(messages).isEmpty)
        #expect(RuleNotice.deleted(messages + [NetlinkReply(type: 33, sequence: 0, body: body)]) == [rule])
    }

    @Test("While a thread waits, everything is checked a quarter of a second after the beginning, and as often then")
    func waitingTurns() {
        var turns = WaitingTurns()
        let due = (0...200).filter { turns.isDue(at: Int64($0) * 5_000_000) }
        #expect(due == [50, 100, 150, 200])
        // A second wait, later.
        let later = [9_000_000_000, 9_050_000_000].filter { turns.isDue(at: $0) }
        #expect(later.isEmpty)
    }

    @Test("An acknowledgement is an error number")
    func acknowledgement() {
        func reply(_ code: Int32) -> NetlinkReply {
            NetlinkReply(type: Netlink.error, sequence: 1, body: NetlinkRequest.bytes(code))
        }
        #expect(reply(0).errorNumber == 0)
        #expect(reply(-17).errorNumber == 17)
        #expect(reply(.min).errorNumber == .max)
        #expect(NetlinkReply(type: Netlink.error, sequence: 1, body: [1]).errorNumber == nil)
        #expect(NetlinkReply(type: Netlink.done, sequence: 1, body: [0, 0, 0, 0]).errorNumber == nil)
    }

    @Test("Parsers never read beyond the bytes of a message")
    func anyBytes() {
        var random = SeededGenerator(seed: 99)
        for _ in 0..<3000 {
            var bytes = (0..<Int.random(in: 0...80, using: &random)).map { _ in
                // Small numbers look like lengths.
                Bool.random(using: &random)
                    ? UInt8.random(in: 0...24, using: &random) : .random(in: 0...255, using: &random)
            }
            for reply in NetlinkReply.parse(bytes) {
                #expect(reply.body.count <= bytes.count - Netlink.headerLength)
            }
            if bytes.count > 3 { bytes[0] = 2 }
            let foreign = ForeignRoute(body: bytes)
            #expect(foreign.restoration.body.count <= bytes.count * 4)
            #expect((foreign.key?.destination.length ?? 0) <= 128)
            #expect((PolicyRule.parse(bytes)?.rule.priority ?? 0) <= .max)
        }
    }
}
