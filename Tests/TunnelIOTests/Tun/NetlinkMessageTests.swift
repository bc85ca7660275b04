// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

@testable import TunnelIO

@Suite("NetlinkMessage")
struct NetlinkMessageTests {
    @Test("Links, removals and namespaces are read, and anything else is passed over")
    func kinds() {
        let datagram =
            link(
                type: 16, index: 7, flags: 0x1001,
                attributes: attribute(3, [0x61, 0]) + attribute(4, bytes(UInt32(1420))))
            + link(type: 16, index: 8, flags: 0x1000)
            + message(type: 24, body: [1, 2, 3, 4])
            + link(type: 17, index: 9)
            + link(type: 17, index: 10, family: 7)
            + message(type: 89, body: [0, 0, 0, 0] + attribute(1, bytes(Int32(3))))
            + message(type: 88, body: [0, 0, 0, 0] + attribute(1, bytes(Int32(-1))))
            + message(type: 2, body: bytes(Int32(-17)) + [UInt8](repeating: 0, count: 16))
        #expect(
            parse(datagram) == [
                .link(index: 7, isUp: true, mtu: 1420), .link(index: 8, isUp: false, mtu: nil), .linkRemoved(index: 9),
                .namespaceRemoved(id: 3), .namespace(id: -1), .acknowledgement(errno: 17),
            ])
    }

    @Test("A datagram that is truncated anywhere gives the messages before it, and never traps")
    func truncated() {
        let one = link(type: 16, index: 7, flags: 1, attributes: attribute(4, bytes(UInt32(1420))))
        let datagram = one + link(type: 17, index: 7)
        for length in datagram.indices {
            let messages = parse(Array(datagram[..<length]))
            #expect(messages == (length < one.count ? [] : [.link(index: 7, isUp: true, mtu: 1420)]))
        }
    }

    @Test("Lengths that lie end the datagram", arguments: [UInt32(0), 15, 17_000, .max])
    func badLength(_ length: UInt32) {
        let good = link(type: 17, index: 7)
        #expect(parse(good + bytes(length) + good.dropFirst(4)) == [.linkRemoved(index: 7)])
    }

    @Test("Attributes whose lengths lie are not read", arguments: [UInt16(0), 3, 9, .max])
    func badAttribute(_ length: UInt16) {
        let attributes = bytes(length) + bytes(UInt16(4)) + bytes(UInt32(1420))
        #expect(
            parse(link(type: 16, index: 7, flags: 1, attributes: attributes)) == [.link(index: 7, isUp: true, mtu: nil)]
        )
    }

    @Test("Random bytes never trap")
    func random() {
        var generator = SplitMix(4)
        var count = 0
        for _ in 0..<5000 {
            let types: [UInt16] = [2, 16, 17, 88, 89]
            let body = (0..<Int.random(in: 0...64, using: &generator)).map { _ in
                UInt8.random(in: 0...8, using: &generator)
            }
            count += parse(message(type: types.randomElement(using: &generator) ?? 2, body: body) + body).count
        }
        #expect(count > 0)
    }

    @Test("Requests about namespaces are laid out as the kernel wants them")
    func request() {
        #expect(
            NetlinkMessage.namespaceRequest(descriptor: 5, assigns: false).message(sequence: 0)
                == message(type: 90, flags: 1, body: [0, 0, 0, 0] + attribute(3, bytes(Int32(5)))))
        #expect(
            NetlinkMessage.namespaceRequest(descriptor: 5, assigns: true)
                .message(sequence: 0, flags: Netlink.acknowledge)
                == message(
                    type: 88, flags: 5,
                    body: [0, 0, 0, 0] + attribute(3, bytes(Int32(5))) + attribute(1, bytes(Int32(-1)))))
    }

    private func parse(_ datagram: [UInt8]) -> [NetlinkMessage] {
        NetlinkReply.parse(datagram).compactMap(NetlinkMessage.init)
    }

    private func link(
        type: UInt16, index: Int32, flags: UInt32 = 0, family: UInt8 = 0, attributes: [UInt8] = []
    ) -> [UInt8] {
        message(
            type: type,
            body: [family, 0] + bytes(UInt16(0)) + bytes(index) + bytes(flags) + bytes(UInt32(0)) + attributes)
    }

    private func message(type: UInt16, flags: UInt16 = 0, body: [UInt8]) -> [UInt8] {
        padded(bytes(UInt32(16 + body.count)) + bytes(type) + bytes(flags) + bytes(UInt64(0)) + body)
    }

    private func attribute(_ kind: UInt16, _ value: [UInt8]) -> [UInt8] {
        padded(bytes(UInt16(4 + value.count)) + bytes(kind) + value)
    }

    private func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
    }

    private func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value) { unsafe Array($0) }
    }
}
