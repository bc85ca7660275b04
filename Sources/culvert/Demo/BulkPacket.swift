// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO

/// The packets of a bulk transfer: UDP in IPv4, each as long as the MTU allows, every byte of them foretold.
///
/// Behind the headers stand the sequence number, the run and the kind; then words of a fixed pattern, each combined with
/// a hash of the sequence number, so that no two packets are alike and the far end can compare every byte.
struct BulkPacket: Sendable {
    enum Kind: UInt32 {
        case data = 0
        /// Asks for an acknowledgement. Its sequence number is that of the packet to come, so that whatever is missing
        /// before it is lost.
        case probe = 1
    }

    static let dataPort: UInt16 = 5001
    static let acknowledgementPort: UInt16 = 5002
    /// IPv4 and UDP headers.
    static let headerByteCount = 28
    private static let fieldByteCount = 16

    /// The bytes of each packet, headers included.
    let byteCount: Int
    private let header: [UInt8]
    private let pattern: [UInt64]

    /// - Parameter mtu: the bytes of a packet; at least 64. What is left of a word at its end is not used.
    init(from source: IPAddress, to destination: IPAddress, mtu: Int) {
        let wordCount = max(mtu - BulkPacket.headerByteCount - BulkPacket.fieldByteCount, 8) / 8
        let payload = [UInt8](repeating: 0, count: BulkPacket.fieldByteCount + wordCount * 8)
        var packet = PacketBuilder.udp(
            from: source, port: BulkPacket.dataPort, to: destination, port: BulkPacket.dataPort, payload: payload)
        // Without a UDP checksum, which IPv4 allows: the comparison is stricter than any sum.
        packet[26] = 0
        packet[27] = 0
        byteCount = packet.count
        header = Array(packet[..<BulkPacket.headerByteCount])
        pattern = (0..<UInt64(wordCount)).map { BulkPacket.mix($0 &+ 0x6375_6c76_6572_7400) }
    }

    /// Writes packet `sequence` of `run` to `bytes`, which has room for ``byteCount``.
    func write(_ sequence: UInt64, run: UInt32, kind: Kind, to bytes: UnsafeMutableRawBufferPointer) {
        precondition(bytes.count >= byteCount)
        unsafe header.withUnsafeBytes { unsafe bytes.copyMemory(from: $0) }
        let fields = BulkPacket.headerByteCount
        unsafe bytes.storeBytes(of: sequence.littleEndian, toByteOffset: fields, as: UInt64.self)
        unsafe bytes.storeBytes(of: run.littleEndian, toByteOffset: fields + 8, as: UInt32.self)
        unsafe bytes.storeBytes(of: kind.rawValue.littleEndian, toByteOffset: fields + 12, as: UInt32.self)
        let mask = BulkPacket.mix(sequence)
        let start = fields + BulkPacket.fieldByteCount
        for index in pattern.indices {
            unsafe bytes.storeBytes(
                of: (pattern[index] ^ mask).littleEndian, toByteOffset: start + 8 * index, as: UInt64.self)
        }
    }

    /// What a packet is, and whether every byte of it is as it was sent.
    struct Reading {
        var sequence: UInt64
        var run: UInt32
        var kind: Kind
        var isIntact: Bool
    }

    /// Reads a packet; nil when it cannot be one of these.
    func read(_ bytes: UnsafeRawBufferPointer) -> Reading? {
        guard bytes.count == byteCount else { return nil }
        let fields = BulkPacket.headerByteCount
        let sequence = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: fields, as: UInt64.self))
        let run = unsafe UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: fields + 8, as: UInt32.self))
        let number = unsafe UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: fields + 12, as: UInt32.self))
        guard let kind = Kind(rawValue: number) else { return nil }
        var difference: UInt64 = 0
        for index in header.indices { unsafe difference |= UInt64(header[index] ^ bytes[index]) }
        let mask = BulkPacket.mix(sequence)
        let start = fields + BulkPacket.fieldByteCount
        for index in pattern.indices {
            let word = unsafe bytes.loadUnaligned(fromByteOffset: start + 8 * index, as: UInt64.self)
            difference |= UInt64(littleEndian: word) ^ pattern[index] ^ mask
        }
        return Reading(sequence: sequence, run: run, kind: kind, isIntact: difference == 0)
    }

    /// A number that looks random (the finaliser of SplitMix64).
    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value &+ 0x9e37_79b9_7f4a_7c15
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}

/// How far a transfer has come, as its receiver says: the payload of a small UDP packet on the way back.
struct BulkAcknowledgement: Equatable {
    var run: UInt32
    /// Packets that came.
    var received: UInt64
    /// The packets that came or will not come any more: one more than the highest sequence number that came.
    var next: UInt64

    /// Packets that should have come and did not.
    var lost: UInt64 { next - min(received, next) }

    private static let byteCount = 20

    var payload: [UInt8] {
        var bytes: [UInt8] = []
        for shift in stride(from: UInt32(0), to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: run >> shift)) }
        for value in [received, next] {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: value >> shift))
            }
        }
        return bytes
    }

    init(run: UInt32, received: UInt64, next: UInt64) {
        self.run = run
        self.received = received
        self.next = next
    }

    init?(payload: UnsafeRawBufferPointer) {
        guard payload.count >= BulkAcknowledgement.byteCount else { return nil }
        run = unsafe UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: 0, as: UInt32.self))
        received = unsafe UInt64(littleEndian: payload.loadUnaligned(fromByteOffset: 4, as: UInt64.self))
        next = unsafe UInt64(littleEndian: payload.loadUnaligned(fromByteOffset: 12, as: UInt64.self))
    }
}

/// The far end of a transfer: what came, and what came damaged, late or not at all.
struct BulkReceiver {
    private(set) var run: UInt32 = 0
    private(set) var received: UInt64 = 0
    private(set) var bytes: UInt64 = 0
    private(set) var damaged: UInt64 = 0
    private(set) var outOfOrder: UInt64 = 0
    /// One more than the highest sequence number that came.
    private(set) var next: UInt64 = 0
    private var sinceAcknowledgement = 0

    /// Packets for each acknowledgement.
    static let acknowledgementInterval = 32

    /// Takes a packet; gives what to acknowledge, if it is time to.
    mutating func take(_ packet: BulkPacket.Reading, byteCount: Int) -> BulkAcknowledgement? {
        if packet.run != run {
            self = BulkReceiver()
            run = packet.run
        }
        if !packet.isIntact { damaged += 1 }
        if packet.kind == .data {
            received += 1
            bytes += UInt64(byteCount)
            if packet.sequence < next { outOfOrder += 1 } else { next = packet.sequence &+ 1 }
            sinceAcknowledgement += 1
            guard sinceAcknowledgement >= BulkReceiver.acknowledgementInterval else { return nil }
        } else {
            next = max(next, packet.sequence)
        }
        sinceAcknowledgement = 0
        return BulkAcknowledgement(run: run, received: received, next: next)
    }
}
