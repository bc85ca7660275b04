// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Whether a descriptor polls readable within the time.
func isReadable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&request, 1, milliseconds) > 0
}

/// A datagram that was received.
struct ReceivedDatagram {
    var bytes: [UInt8]
    var endpoint: Endpoint
}

/// Receives until there are `count` datagrams, or none arrived for two seconds.
func receive(_ count: Int, from socket: any DatagramSocket, slots: Int = 64) throws -> [ReceivedDatagram] {
    let batch = try PacketBatch(packetCapacity: slots, byteCapacity: slots * 65_600)
    var received: [ReceivedDatagram] = []
    while received.count < count, isReadable(socket.readiness, milliseconds: 2000) {
        batch.removeAll()
        let appended = try socket.receive(into: batch)
        #expect(appended == batch.count)
        for index in 0..<batch.count {
            received.append(ReceivedDatagram(bytes: batch.copy(of: index), endpoint: batch[endpoint: index]))
        }
    }
    return received
}

/// A batch of these datagrams, all for one endpoint.
func batch(of datagrams: [[UInt8]], to endpoint: Endpoint) throws -> PacketBatch {
    let bytes = datagrams.reduce(64) { $0 + $1.count }
    let batch = try PacketBatch(packetCapacity: max(datagrams.count, 1), byteCapacity: bytes)
    for datagram in datagrams { batch.append(copying: datagram, endpoint: endpoint) }
    return batch
}

extension Endpoint {
    /// `::1` or `127.0.0.1`.
    static func loopback(isIPv6: Bool, port: UInt16) -> Endpoint {
        isIPv6 ? Endpoint(address: .v6(0, 1), port: port) : .loopback(port: port)
    }
}

/// Leaves the present test case out if it needs IPv6 and the loopback interface has none, as in most containers.
func cancelWithoutIPv6(_ needsIPv6: Bool = true) throws {
    #if os(Linux)
        let addresses = (try? String(contentsOfFile: "/proc/net/if_inet6", encoding: .utf8)) ?? ""
        guard needsIPv6, !addresses.split(separator: "\n").contains(where: { $0.hasSuffix(" lo") }) else { return }
        try Test.cancel("needs IPv6 on the loopback interface")
    #endif
}

/// Different bytes for different seeds, the same each run.
func pattern(_ length: Int, seed: Int) -> [UInt8] {
    var state = UInt64(truncatingIfNeeded: seed) &* 0x9E37_79B9_7F4A_7C15 | 1
    return (0..<length).map { _ in
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return UInt8(truncatingIfNeeded: state)
    }
}
