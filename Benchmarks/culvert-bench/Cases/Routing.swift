// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// The allowed-IPs table at several sizes, through the engine's public calls.
enum Routing {
    static func suites(isQuick: Bool) -> [Suite] {
        let sizes = isQuick ? [1, 1_000, 100_000] : [1, 1_000, 100_000, 1_000_000]
        return [IPFamily.v4, .v6].flatMap { family in
            sizes.map { size in
                Suite(name: "Allowed IPs, \(family == .v4 ? "IPv4" : "IPv6"), \(size) entries") { _ in
                    try lookups(family, size)
                }
            }
        }
            + sizes.filter { $0 > 1 }.map { size in
                Suite(
                    name: "Allowed IPs, insertion of \(size) entries", prepare: { _ in insertions(size) },
                    maximumRuns: 3)
            }
    }

    /// Networks as they may come in a table, each with an address inside; lengths are half of the address's and more for
    /// IPv4, a quarter and more for IPv6.
    private static func networks(_ family: IPFamily, _ count: Int) -> [(prefix: IPPrefix, inside: RawAddress)] {
        var random = SeededGenerator(seed: 11)
        return (0..<count).compactMap { _ in
            let inside = RawAddress(family, &random)
            let prefix = IPPrefix(inside.address, length: random.int(in: (family == .v4 ? 16 : 32)...family.bitWidth))
            return prefix.map { ($0, inside) }
        }
    }

    private static func lookups(_ family: IPFamily, _ size: Int) throws -> [Case] {
        let now = Instant(nanoseconds: 1)
        let wall = WallTime(seconds: 1)
        let networks = networks(family, size)
        let holder = Holder(networks.map(\.prefix))
        holder.engine.setUp(true, at: now, wall: wall)
        // Random addresses, every other one inside a network of the table.
        var random = SeededGenerator(seed: 13)
        let raw = (0..<8192).map { index in
            index & 1 == 0 ? networks[random.int(in: 0..<size)].inside : RawAddress(family, &random)
        }
        let addresses = raw.map(\.address)
        let headers = Headers(raw)
        let plan = SendPlan()
        var start = 0
        return [
            // The peer has no endpoint, so the plan consists of the lookup only.
            Case(name: "planSend of a packet, look-up alone", unit: .nanoseconds) { duration in
                timed(duration, count: 64) {
                    unsafe holder.engine.planSend(
                        headers.views(64, from: start), mtu: 0, at: now, wall: wall, into: plan)
                    start = (start + 64) & 8191
                }
            },
            Case(name: "peer(routing:)", unit: .nanoseconds) { duration in
                timed(duration, count: addresses.count) {
                    var found = 0
                    for address in addresses where holder.engine.peer(routing: address) != nil { found += 1 }
                    keep(found)
                }
            },
        ]
    }

    private static func insertions(_ size: Int) -> [Case] {
        [IPFamily.v4, .v6].map { family in
            let networks = networks(family, size).map(\.prefix)
            return Case(name: family == .v4 ? "IPv4" : "IPv6", unit: .nanoseconds) { duration in
                timedInside(duration, count: size) {
                    let holder = Holder([])
                    return elapsed { holder.add(networks) }
                }
            }
        }
    }

    /// An engine with one peer.
    private final class Holder {
        var engine = Engine(random: SeededGenerator(seed: 3))
        private let key: PublicKey?

        init(_ networks: [IPPrefix]) {
            key = PublicKey(bytes: [UInt8](repeating: 9, count: 32))
            if let key { engine.addPeer(key) }
            add(networks)
        }

        func add(_ networks: [IPPrefix]) {
            guard let key else { return }
            for network in networks { engine.addAllowedIP(network, to: key) }
        }
    }
}

/// A random address and the bytes of it.
private struct RawAddress {
    let family: IPFamily
    private let high: UInt64
    private let low: UInt64

    init(_ family: IPFamily, _ random: inout SeededGenerator) {
        self.family = family
        // IPv6 within 2000::/3, as the Internet's addresses are.
        high = family == .v4 ? 0 : random.next() >> 3 | 0x2000 << 48
        low = family == .v4 ? random.next() & 0xffff_ffff : random.next()
    }

    var address: IPAddress {
        family == .v4 ? IPAddress.v4(UInt32(truncatingIfNeeded: low)) : IPAddress.v6(high, low)
    }

    /// Writes the destination of a header.
    func store(into header: UnsafeMutableRawPointer) {
        guard family == .v6 else {
            unsafe header.storeBytes(of: 0x45, as: UInt8.self)
            unsafe header.storeBytes(
                of: UInt32(truncatingIfNeeded: low).bigEndian, toByteOffset: 16, as: UInt32.self)
            return
        }
        unsafe header.storeBytes(of: 0x60, as: UInt8.self)
        unsafe header.storeBytes(of: high.bigEndian, toByteOffset: 24, as: UInt64.self)
        unsafe header.storeBytes(of: low.bigEndian, toByteOffset: 32, as: UInt64.self)
    }
}

/// Packets that are a header and nothing else, in one piece of memory.
@safe
private final class Headers {
    private let bytes: UnsafeMutableRawPointer
    private let all: UnsafeMutableBufferPointer<PacketView>

    init(_ addresses: [RawAddress]) {
        let slot = 40
        unsafe bytes = .allocate(byteCount: addresses.count * slot, alignment: 64)
        unsafe bytes.initializeMemory(as: UInt8.self, repeating: 0, count: addresses.count * slot)
        unsafe all = .allocate(capacity: addresses.count)
        for (index, address) in addresses.enumerated() {
            let base = unsafe bytes + index * slot
            unsafe address.store(into: base)
            unsafe all.initializeElement(
                at: index, to: PacketView(base: base, count: address.family == .v4 ? 20 : 40))
        }
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe all.deallocate()
    }

    func views(_ count: Int, from start: Int) -> UnsafeBufferPointer<PacketView> {
        unsafe UnsafeBufferPointer(rebasing: UnsafeBufferPointer(all)[start..<(start + count)])
    }
}
