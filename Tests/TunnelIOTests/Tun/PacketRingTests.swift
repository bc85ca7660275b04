// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("PacketRing")
struct PacketRingTests {
    @Test("A ring behaves as a bounded queue for any sequence of pushes and pops", arguments: [UInt64(1), 2, 3, 4])
    func model(_ seed: UInt64) throws {
        var generator = SplitMix(seed)
        var ring = try PacketRing(packetCapacity: 7, byteCapacity: 4096)
        var model: [[UInt8]] = []
        var refused = 0
        for step in 0..<2000 {
            if Bool.random(using: &generator) {
                let length = Int.random(in: 1...1500, using: &generator)
                let packet = [UInt8](repeating: UInt8(truncatingIfNeeded: step), count: length)
                if unsafe packet.withUnsafeBytes({ unsafe ring.push($0) }) {
                    model.append(packet)
                } else {
                    refused += 1
                    // Never refused while less than a third of it is used.
                    #expect(model.count == 7 || model.map(\.count).reduce(length, +) > 4096 / 3)
                }
            } else {
                var popped: [UInt8]?
                let took = unsafe ring.pop { packet in
                    unsafe popped = Array(packet)
                    return true
                }
                #expect(took == !model.isEmpty)
                #expect(popped == (model.isEmpty ? nil : model.removeFirst()))
            }
            #expect(ring.count == model.count)
        }
        #expect(refused > 50)
    }

    @Test("A packet that is not removed stays")
    func notTaken() throws {
        var ring = try PacketRing(packetCapacity: 2, byteCapacity: 4096)
        let packet: [UInt8] = [1, 2]
        #expect(unsafe packet.withUnsafeBytes { unsafe ring.push($0) })
        #expect(unsafe !ring.pop { _ in false })
        #expect(ring.count == 1)
        #expect(unsafe ring.pop { unsafe Array($0) == packet })
        #expect(unsafe !ring.pop { _ in true })
    }

    @Test("A packet that fills the region fits, and no longer one")
    func whole() throws {
        var ring = try PacketRing(packetCapacity: 2, byteCapacity: 4096)
        let capacity = 4096
        let packet = [UInt8](repeating: 1, count: capacity)
        #expect(unsafe !(packet + [1]).withUnsafeBytes { unsafe ring.push($0) })
        #expect(unsafe packet.withUnsafeBytes { unsafe ring.push($0) })
        #expect(unsafe ![UInt8(1)].withUnsafeBytes { unsafe ring.push($0) })
        ring.removeAll()
        #expect(unsafe [UInt8(1)].withUnsafeBytes { unsafe ring.push($0) })
    }
}
