// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CStageCalls
import Foundation
import NetworkAddresses
import TunnelIO
import WireGuardCore

/// The stages of a packet through two devices, one after the other on one thread, with the real types of TUN device and
/// socket. `CStageCalls` answers their system calls, so only their own work counts.
///
/// The packets are one TCP superframe: it is read from the device, split, planned, sealed, joined for the socket, received
/// joined, split, planned, opened, committed, and joined for the device again.
@safe
final class StagePipeline {
    enum Stage: String, CaseIterable {
        case tunRead = "TUN: read a superframe and split it"
        case planSend = "engine: plan sending"
        case seal = "engine: seal"
        case udpSend = "UDP: join for sending"
        case udpReceive = "UDP: receive joined and cut"
        case planOpen = "engine: plan opening"
        case open = "engine: open"
        case commit = "engine: commit"
        case tunWrite = "TUN: join and write a superframe"
        case rawSeal = "bare AEAD: seal"
        case rawOpen = "bare AEAD: open"

        /// Whether the stage is part of a packet's path.
        var isOnTheWay: Bool { self != .rawSeal && self != .rawOpen }
    }

    /// Packets of 1,420 bytes in the superframe.
    static let packetCount = 45
    private static let segmentSize = 1368
    private static let headers = 52
    private static let mtu = 1420

    private let pair: Pair
    private let device: LinuxTun
    private let socket: LinuxUDPSocket
    private let packets: PacketBatch
    private let sealed: PacketBatch
    private let incoming: PacketBatch
    private let sendPlan = SendPlan()
    private let receivePlan = ReceivePlan(capacity: 1024)
    private let views: UnsafeMutableBufferPointer<PacketView>
    private let frame: UnsafeMutableRawBufferPointer
    private let raw: any RawAEAD

    /// - Throws: An error if no TUN device can be created.
    init() throws {
        pair = try Pair()
        device = try LinuxTun(name: "cbstage\(getpid() % 1_000_000)", mtu: Self.mtu)
        socket = try LinuxUDPSocket(isIPv6: false, port: 0)
        packets = try PacketBatch(packetCapacity: 256, byteCapacity: 1 << 19)
        sealed = try PacketBatch(packetCapacity: 256, byteCapacity: 1 << 19)
        incoming = try PacketBatch(packetCapacity: 1024, byteCapacity: 17 * 65_600)
        unsafe views = .allocate(capacity: 1024)
        unsafe frame = unsafe Self.superframe()
        guard let aead = rawAEADs(byteCount: Self.mtu).first else { throw BenchmarkError("no AEAD") }
        raw = aead.aead
        stage_calls_begin(device.readiness, socket.readiness)
        try verify()
    }

    deinit {
        stage_calls_begin(-1, -1)
        socket.close()
        device.close()
        unsafe views.deallocate()
        unsafe frame.deallocate()
    }

    /// The number of packets that stage `stage` handles in one turn.
    static func count(of stage: Stage) -> Int { stage.isOnTheWay ? packetCount : Batch.count }

    /// One turn of one stage; each works on the result of the one before it.
    @inline(never)
    func run(_ stage: Stage) {
        switch stage {
        case .tunRead:
            packets.removeAll()
            unsafe stage_calls_offer_frame(frame.baseAddress, frame.count)
            keep((try? device.receive(into: packets)) ?? 0)
        case .planSend:
            unsafe pair.left.planSend(
                views(of: packets), mtu: Self.mtu, at: pair.now, wall: pair.wall, into: sendPlan)
        case .seal:
            sealed.removeAll()
            let room = unsafe sealed.freeBytes
            guard let base = room.baseAddress else { return }
            let endpoint = Endpoint(address: .v4(0xc000_0202), port: 51_820)
            let count = packets.count
            unsafe sendPlan.seal(
                UnsafeBufferPointer(rebasing: views[..<count]), into: base, capacity: room.count
            ) { [sealed] offset, byteCount, _ in
                sealed.append(offset: offset, length: byteCount, endpoint: endpoint)
            }
        case .udpSend:
            keep((try? socket.send(sealed, in: 0..<sealed.count))?.sent ?? 0)
        case .udpReceive:
            incoming.removeAll()
            unsafe stage_calls_offer_datagrams(
                sealed.bytes(of: 0).baseAddress, sealed.tail, Int(sealed[0].length))
            keep((try? socket.receive(into: incoming)) ?? 0)
        case .planOpen:
            let endpoint = pair.leftEndpoint
            unsafe pair.right.planOpen(
                views(of: incoming), endpoints: { _ in endpoint }, at: pair.now, wall: pair.wall, into: receivePlan)
        case .open:
            unsafe receivePlan.open(UnsafeBufferPointer(rebasing: views[..<incoming.count]))
        case .commit:
            let endpoint = pair.leftEndpoint
            unsafe pair.right.commit(
                receivePlan, UnsafeBufferPointer(rebasing: views[..<incoming.count]), endpoints: { _ in endpoint },
                at: pair.now, wall: pair.wall)
        case .tunWrite:
            for index in 0..<incoming.count {
                let length = UInt32(receivePlan.packetByteCount(at: index))
                let offset = incoming[index].offset + UInt32(ReceivePlan.packetOffset)
                incoming[index] = PacketDescriptor(offset: offset, length: length)
            }
            keep((try? device.send(incoming))?.sent ?? 0)
        case .rawSeal: raw.seal()
        case .rawOpen: raw.open()
        }
    }

    @unsafe
    private func views(of batch: PacketBatch) -> UnsafeBufferPointer<PacketView> {
        for index in 0..<batch.count {
            let descriptor = batch[index]
            let bytes = unsafe batch.bytes(of: index)
            guard let base = bytes.baseAddress else { continue }
            unsafe views.initializeElement(at: index, to: PacketView(base: base, count: Int(descriptor.length)))
        }
        return unsafe UnsafeBufferPointer(rebasing: views[..<batch.count])
    }

    /// Checks that every stage does the work that is measured.
    private func verify() throws {
        for _ in 0..<3 {
            let (frames, messages) = (stage_calls_frames(), stage_calls_messages())
            for stage in Stage.allCases { run(stage) }
            let delivered = (0..<incoming.count).count(where: { incoming[$0].length == 1420 })
            guard packets.count == Self.packetCount, sealed.count == Self.packetCount,
                delivered == Self.packetCount
            else {
                throw BenchmarkError(
                    "of \(Self.packetCount) packets \(packets.count) were split, \(sealed.count) sealed, \(delivered) opened"
                )
            }
            let (written, sent) = (stage_calls_frames() - frames, stage_calls_messages() - messages)
            guard written == 1, sent == 1 else {
                throw BenchmarkError("\(written) frames were written and \(sent) messages sent in place of one each")
            }
        }
    }

    // MARK: The superframe

    /// A TCP superframe as Linux gives it to a TUN device: a header of 10 bytes, IPv4, TCP with time stamps, payload.
    @unsafe
    private static func superframe() -> UnsafeMutableRawBufferPointer {
        let total = headers + packetCount * segmentSize
        var bytes: [UInt8] = []
        func native16(_ value: Int) {
            unsafe withUnsafeBytes(of: UInt16(value)) { unsafe bytes.append(contentsOf: $0) }
        }
        func big16(_ value: Int) { bytes += [UInt8(value >> 8 & 255), UInt8(value & 255)] }
        // Needs a checksum, TCP over IPv4.
        bytes += [1, 1]
        native16(headers)
        native16(segmentSize)
        native16(20)
        native16(16)
        let ip = bytes.count
        bytes += [0x45, 0]
        big16(total)
        bytes += [0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
        let header = sum(bytes[ip...])
        bytes[ip + 10] = UInt8(~header >> 8 & 255)
        bytes[ip + 11] = UInt8(~header & 255)
        let pseudo = sum(bytes[(ip + 12)..<(ip + 20)], from: 6 + total - 20)
        big16(40_000)
        big16(5201)
        bytes += [0, 0, 0x10, 0, 0, 0, 0x20, 0, 0x80, 0x10, 0x10, 0]
        big16(pseudo)
        bytes += [0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]
        while bytes.count < ip + total { bytes.append(UInt8(truncatingIfNeeded: bytes.count &* 31)) }
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 64)
        unsafe memory.copyBytes(from: bytes)
        return unsafe memory
    }

    /// The Internet checksum's sum, not inverted.
    private static func sum(_ bytes: ArraySlice<UInt8>, from start: Int = 0) -> Int {
        var sum = start
        for (position, byte) in bytes.enumerated() { sum += position % 2 == 0 ? Int(byte) << 8 : Int(byte) }
        while sum > 0xffff { sum = sum & 0xffff + sum >> 16 }
        return sum
    }
}
