// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

/// A lane on one host of an internet in memory, and the bare sockets of another.
struct LaneSite {
    let internet = MemoryInternet(queueLimit: 100_000)
    let host: MemoryDatagramNetwork
    let sockets: DatagramSockets
    let peer: DatagramSockets
    let device: ScriptedTun
    let transport: FramingTransport
    let lane: Lane
    let failures: FailureLog

    static let local = IPAddress.v4(1)
    static let local6 = IPAddress.v6(1, 1)
    static let remote = IPAddress.v4(2)
    static let remote6 = IPAddress.v6(1, 2)

    init(configuration: LaneConfiguration = LaneConfiguration(), withSockets: Bool = true) throws {
        host = internet.attach([Self.local, Self.local6])
        sockets = try host.bind(port: 7, mark: 0)
        peer = try internet.attach([Self.remote, Self.remote6]).bind(port: 8, mark: 0)
        device = try ScriptedTun()
        transport = FramingTransport(remote: Endpoint(address: Self.remote, port: 8))
        let failures = FailureLog()
        self.failures = failures
        lane = try Lane(
            device: device, sockets: withSockets ? sockets : nil, transport: transport, configuration: configuration,
            onFailure: { failures.note($0) })
    }

    /// Sends datagrams from the other host to the lane.
    func sendToLane(_ datagrams: [[UInt8]], isIPv6: Bool = false, port: UInt16 = 7) throws {
        let socket = try #require(isIPv6 ? peer.v6 : peer.v4)
        let address = isIPv6 ? Self.local6 : Self.local
        let outgoing = try batch(of: datagrams, to: Endpoint(address: address, port: port))
        #expect(try socket.send(outgoing, in: 0..<datagrams.count).sent == datagrams.count)
    }
}

final class FailureLog: Sendable {
    let errors = Mutex<[TunnelIOError]>([])
    let happened = Latch()

    func note(_ error: TunnelIOError) {
        errors.withLock { $0.append(error) }
        happened.open()
    }
}
