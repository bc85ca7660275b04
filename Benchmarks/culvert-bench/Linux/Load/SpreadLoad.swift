// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TunnelIO
import WireGuardCore

/// Equal load of many peers on one daemon: each peer in turn seals and sends the same number of packets.
enum SpreadLoad {
    static let command = "spread-load"
    private static let packetByteCount = 1300
    private static let packetsPerTurn = 16

    static func run(_ arguments: ArraySlice<String>) throws {
        let words = Array(arguments)
        let crowd = try PeerCrowd(words)
        guard let seconds = Int(words[4]), (1...60).contains(seconds) else {
            throw UsageError(message: "\(command): wrong time")
        }
        let end = nanoseconds() + seconds * 1_000_000_000
        try connect(crowd)
        let sender = try Sender()
        while nanoseconds() < end {
            for number in crowd.members.indices { try sender.send(number, of: crowd) }
            // Keepalives and other datagrams are not answered here.
            try crowd.receive { _ in }
        }
    }

    /// Gives every member a session.
    private static func connect(_ crowd: PeerCrowd) throws {
        var left = Set(crowd.members.indices)
        let limit = nanoseconds() + 5_000_000_000
        while !left.isEmpty {
            guard nanoseconds() < limit else { throw BenchmarkError("\(left.count) peers get no session") }
            for number in left { try crowd.begin(number) }
            try crowd.flush()
            let patience = nanoseconds() + 100_000_000
            while nanoseconds() < patience, !left.isEmpty {
                guard UDPWait.readable(crowd.socket.readiness, milliseconds: 20) else { continue }
                try crowd.receive { left.remove($0) }
            }
        }
    }

    /// The buffers that all members share; each has its own engine.
    @safe
    private final class Sender {
        private let plan = SendPlan()
        private let packets: PacketBatch
        private let datagrams: PacketBatch
        private let views: UnsafeMutableBufferPointer<PacketView>

        init() throws {
            packets = try PacketBatch(packetCapacity: packetsPerTurn, byteCapacity: packetsPerTurn * 2048)
            datagrams = try PacketBatch(packetCapacity: packetsPerTurn, byteCapacity: packetsPerTurn * 2048)
            unsafe views = .allocate(capacity: packetsPerTurn)
            let packet = PeerCrowd.packet(0, byteCount: packetByteCount)
            for index in 0..<packetsPerTurn {
                packets.append(copying: packet)
                packets.alignTail(to: 2048)
                let bytes = unsafe packets.bytes(of: index)
                guard let base = bytes.baseAddress else { throw BenchmarkError("no memory") }
                unsafe views.initializeElement(at: index, to: PacketView(base: base, count: packetByteCount))
            }
        }

        deinit { unsafe views.deallocate() }

        func send(_ number: Int, of crowd: PeerCrowd) throws {
            let member = crowd.members[number]
            let source = PeerCrowd.insideNetwork + UInt32(number)
            for index in 0..<packetsPerTurn {
                unsafe packets.bytes(of: index).storeBytes(of: source.bigEndian, toByteOffset: 12, as: UInt32.self)
            }
            unsafe member.engine.planSend(
                UnsafeBufferPointer(views), mtu: 1420, at: member.now, wall: member.wall, into: plan)
            datagrams.removeAll()
            let endpoint = crowd.endpoint(number)
            let room = unsafe datagrams.freeBytes
            guard let base = room.baseAddress else { return }
            unsafe plan.seal(UnsafeBufferPointer(views), into: base, capacity: room.count) {
                [datagrams] offset, byteCount, _ in
                datagrams.append(offset: offset, length: byteCount, endpoint: endpoint)
            }
            _ = try crowd.socket.send(datagrams, in: 0..<datagrams.count)
        }
    }
}
