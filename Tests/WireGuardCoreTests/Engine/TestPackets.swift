// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

@testable import WireGuardCore

/// IP packets for the engine's tests: headers with the fields that the engine reads, and a payload.
enum TestPacket {
    static func v4(from source: UInt32, to destination: UInt32, payload: [UInt8]) -> [UInt8] {
        let total = 20 + payload.count
        var packet: [UInt8] = [0x45, 0, UInt8(truncatingIfNeeded: total >> 8), UInt8(truncatingIfNeeded: total)]
        packet += [0, 0, 0, 0, 64, 17, 0, 0]
        packet += bigEndian(source) + bigEndian(destination)
        return packet + payload
    }

    static func v6(from source: IPAddress, to destination: IPAddress, payload: [UInt8]) -> [UInt8] {
        var packet: [UInt8] = [0x60, 0, 0, 0]
        packet += [UInt8(truncatingIfNeeded: payload.count >> 8), UInt8(truncatingIfNeeded: payload.count), 17, 64]
        for half in [source.high, source.low, destination.high, destination.low] {
            packet += bigEndian(UInt32(truncatingIfNeeded: half >> 32)) + bigEndian(UInt32(truncatingIfNeeded: half))
        }
        return packet + payload
    }

    static func bigEndian(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * $0)) }
    }
}

/// Hexadecimal text of vectors.
func hex(_ text: String) -> [UInt8] {
    let digits = text.utf8.compactMap { byte -> UInt8? in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

/// Views and plans over arrays, for tests of the batch calls.
@safe
final class TestBatch {
    private var views: [PacketView]
    private var storage: [UnsafeMutableRawPointer]

    /// Copies of `packets`, each with room behind it for padding.
    init(_ packets: [[UInt8]]) {
        unsafe views = []
        unsafe storage = []
        for packet in packets {
            let base = UnsafeMutableRawPointer.allocate(byteCount: packet.count + 64, alignment: 16)
            unsafe base.initializeMemory(as: UInt8.self, repeating: 0xaa, count: packet.count + 64)
            unsafe packet.withUnsafeBytes { raw in
                unsafe UnsafeMutableRawBufferPointer(start: base, count: raw.count).copyMemory(from: raw)
            }
            unsafe storage.append(base)
            unsafe views.append(unsafe PacketView(base: base, count: packet.count))
        }
    }

    deinit {
        for index in unsafe storage.indices { unsafe storage[index].deallocate() }
    }

    func withViews<R>(_ body: (UnsafeBufferPointer<PacketView>) -> R) -> R {
        unsafe views.withUnsafeBufferPointer { unsafe body($0) }
    }

    /// The `count` bytes at `offset` in packet `index`.
    func bytes(_ index: Int, at offset: Int, count: Int) -> [UInt8] {
        unsafe Array(UnsafeRawBufferPointer(start: storage[index] + offset, count: count))
    }

    /// Seals what `plan` wants sent.
    func seal(_ plan: SendPlan) -> [OutgoingDatagram] {
        var result: [OutgoingDatagram] = []
        let capacity = unsafe views.reduce(0) { unsafe $0 + SendPlan.maximumDatagramByteCount(forPacket: $1.count) }
        unsafe withViews { views in
            unsafe withUnsafeTemporaryAllocation(byteCount: max(capacity, 1), alignment: 16) { out in
                guard let start = out.baseAddress else { return }
                unsafe plan.seal(views, into: start, capacity: capacity) { offset, byteCount, endpoint in
                    unsafe result.append(
                        OutgoingDatagram(
                            bytes: Array(UnsafeRawBufferPointer(start: start + offset, count: byteCount)),
                            endpoint: endpoint))
                }
            }
        }
        return result
    }
}
