// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelSystem

@testable import TunnelIO

@Suite("Interface messages")
struct InterfaceMessageTests {
    private let samples: [InterfaceAddress]

    init() throws {
        samples = try [
            InterfaceAddress("10.0.0.1/24"), InterfaceAddress("10.0.0.1 peer 10.0.0.2/32"),
            InterfaceAddress("fd00::1/64"), InterfaceAddress("fd00::1 peer fd00::2/128"),
        ]
    }

    @Test("The address of a request is read back unchanged")
    func roundTrip() throws {
        #expect(samples.count == 4)
        for sample in samples {
            let reply = try #require(replies(message(InterfaceMessage.change(sample, isAdded: true, index: 7))).first)
            #expect(reply.flags == 0x605)
            #expect(InterfaceMessage.address(reply, index: 7) == sample)
            #expect(InterfaceMessage.address(reply, index: 8) == nil)
            let removal = try #require(
                replies(message(InterfaceMessage.change(sample, isAdded: false, index: 7))).first)
            #expect(removal.type == 21 && removal.flags == 5)
            #expect(InterfaceMessage.address(removal, index: 7) == nil)
        }
    }

    @Test("An address with an attribute of the wrong length, or a prefix that is too long, is skipped")
    func lies() throws {
        let good = try #require(replies(message(InterfaceMessage.change(samples[0], isAdded: true, index: 7))).first)
        var long = good
        long.body[1] = 33
        #expect(InterfaceMessage.address(long, index: 7) == nil)
        var other = good
        other.body[0] = 10
        #expect(InterfaceMessage.address(other, index: 7) == nil)
        other.body[0] = 28
        #expect(InterfaceMessage.address(other, index: 7) == nil)
    }

    @Test("Cut short anywhere, messages give nothing wrong and never trap")
    func truncated() throws {
        let messages =
            (samples.map { InterfaceMessage.change($0, isAdded: true, index: 7) } + [
                InterfaceMessage.addressList, InterfaceMessage.description(index: 3),
                InterfaceMessage.description(name: "cv0"), InterfaceMessage.rename(to: "cv1", index: 3),
                NetlinkMessage.namespaceRequest(descriptor: 5, assigns: true),
            ]).map(message) + [tunLink]
        var seen: Set<InterfaceAddress> = []
        for message in messages {
            for length in 0...message.count {
                var part = Array(message[..<length])
                for isPatched in [false, true] where length >= 4 || !isPatched {
                    // Once with the original length, and once with one that fits the rest.
                    if isPatched {
                        unsafe withUnsafeBytes(of: UInt32(length)) { unsafe part.replaceSubrange(0..<4, with: $0) }
                    }
                    for reply in replies(part) {
                        _ = NetlinkMessage(reply)
                        if let address = InterfaceMessage.address(reply, index: 7) { seen.insert(address) }
                        if let attributes = InterfaceMessage.attributes(reply) {
                            #expect(attributes.owner == nil || attributes.owner == 1000)
                        }
                    }
                }
            }
        }
        // Without the second address, the rest is a valid address without a peer.
        #expect(seen.isSuperset(of: samples))
        #expect(Set(seen.map(\.address)).isSubset(of: Set(samples.map(\.address) + samples.compactMap(\.peer))))
    }

    @Test("Any byte of a message may be any other")
    func mutated() {
        var generator = SplitMix(11)
        var found = 0
        for _ in 0..<4000 {
            var message =
                Bool.random(using: &generator)
                ? tunLink
                : self.message(InterfaceMessage.change(samples[3], isAdded: true, index: 7))
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                message[Int.random(in: 0..<message.count, using: &generator)] = UInt8.random(
                    in: 0...255, using: &generator)
            }
            for reply in replies(message) {
                if InterfaceMessage.address(reply, index: 7) != nil { found += 1 }
                if InterfaceMessage.attributes(reply) != nil { found += 1 }
            }
        }
        #expect(found > 100)
    }

    @Test("A TUN interface's attributes are read, and no other's")
    func attributes() throws {
        let reply = try #require(replies(tunLink).first)
        var expected = TunAttributes()
        expected.owner = 1000
        expected.hasPacketInformation = true
        expected.isMultiQueue = true
        expected.queueCount = 3
        #expect(InterfaceMessage.attributes(reply) == expected)
        var request = NetlinkRequest(type: 16, body: [UInt8](repeating: 0, count: 16))
        request.append(18, attribute(1, Array("veth".utf8) + [0]))
        #expect(InterfaceMessage.attributes(try #require(replies(message(request)).first)) == nil)
    }

    private var tunLink: [UInt8] {
        var request = NetlinkRequest(type: 16, body: [UInt8](repeating: 0, count: 16))
        request.append(3, Array("cv0".utf8) + [0])
        let data =
            attribute(1, [0xe8, 3, 0, 0]) + attribute(4, [1]) + attribute(5, [0]) + attribute(7, [1])
            + attribute(8, [3, 0, 0, 0])
        request.append(18, attribute(1, Array("tun".utf8) + [0]) + attribute(2, data))
        return message(request)
    }

    private func attribute(_ kind: UInt16, _ value: [UInt8]) -> [UInt8] {
        var request = NetlinkRequest(type: 0, body: [])
        request.append(kind, value)
        return request.body
    }

    private func replies(_ bytes: [UInt8]) -> [NetlinkReply] {
        NetlinkReply.parse(bytes)
    }

    /// The bytes of the request with an acknowledgement.
    private func message(_ request: NetlinkRequest) -> [UInt8] {
        request.message(sequence: 0, flags: Netlink.acknowledge)
    }
}
