// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux
import Testing

@testable import TunnelServer

/// Servers that start and stop on one host at the same time, without a lock.
@Suite struct HostForwardingTests {
    private static let mark = ForwardingMark(isIPv6: false, newestInterface: 7)

    /// The marks of a new server on a host that forwards IPv6 by itself, and IPv4 as given.
    /// - Parameter change: Called after the new server has read the marks.
    private func marks(
        forwards: Bool, marks: [ForwardingMark], changes change: (inout Bool) -> Void = { _ in }
    ) throws -> Set<ForwardingMark> {
        var forwards = forwards
        return try HostForwarding.marks(
            [false, true], isOff: { $0 ? false : !forwards },
            present: {
                defer { change(&forwards) }
                return marks
            },
            newestInterface: { 9 })
    }

    @Test("A server marks a host that does not forward, or only for another server, and no other host")
    func quietHost() throws {
        #expect(try marks(forwards: false, marks: []) == [ForwardingMark(isIPv6: false, newestInterface: 9)])
        #expect(try marks(forwards: true, marks: [Self.mark]) == [Self.mark])
        #expect(try marks(forwards: true, marks: []).isEmpty)
    }

    @Test("A server marks the host if another server makes its mark and turns forwarding on at the same time")
    func otherStarts() throws {
        let made = try marks(forwards: false, marks: []) { $0 = true }
        #expect(made == [ForwardingMark(isIPv6: false, newestInterface: 9)])
    }

    @Test("A server marks the host if another server turns forwarding off and removes its mark at the same time")
    func otherStops() throws {
        let made = try marks(forwards: true, marks: []) { $0 = false }
        #expect(made == [ForwardingMark(isIPv6: false, newestInterface: 9)])
    }
}
