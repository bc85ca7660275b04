// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore
import WireGuardDevice

/// The cost of each peer in engines of several sizes. Equal costs mean that a device's time and memory grow linearly with its
/// peers.
enum Scale {
    /// The measured work, in the order of the table.
    private enum Work: String, CaseIterable {
        case memory = "memory"
        case parse = "setconf, text to update"
        case add = "setconf, first"
        case replace = "setconf, again"
        case longestFirst = "setconf first, longest hold of the engine in all"
        case longestPiece = "setconf again, longest hold of the engine in all"
        case longestAddition = "addconf, longest hold of the engine in all"
        case show = "wg show, state and text"
        case timers = "one timer of each peer"
        case lookup = "look-up of one address in all"

        var unit: Unit {
            switch self {
            case .memory: .bytes
            case .longestFirst, .longestPiece, .longestAddition: .microseconds
            default: .nanoseconds
            }
        }

        /// The name of a row.
        func title(_ peers: Int) -> String { "\(rawValue), \(peers) peers" }
    }

    /// The allowed IPs of each peer: an address and a network in each family.
    static let networksPerPeer = 4

    static func suites(isQuick: Bool) -> [Suite] {
        let sizes = isQuick ? [100, 1_000, 10_000] : [1_000, 10_000, 100_000]
        return [
            Suite(
                name: "Scale, per peer with \(networksPerPeer) allowed IPs", prepare: { _ in try cases(sizes) },
                derive: { growth($0, sizes) }, maximumRuns: 5)
        ]
    }

    /// The allowed IPs of a peer.
    static func networks(_ number: Int) -> [IPPrefix] {
        [
            IPPrefix(.v4(0x0a00_0000 + UInt32(number)), length: 32),
            IPPrefix(.v4(0x4000_0000 + UInt32(number) << 4), length: 28),
            IPPrefix(.v6(0xfd00 << 48, UInt64(number)), length: 128),
            IPPrefix(.v6(0x2001_0db8 << 32 + UInt64(number), 0), length: 64),
        ].compactMap(\.self)
    }

    private static func cases(_ sizes: [Int]) throws -> [Case] {
        let crowds = try sizes.map { try Crowd($0) }
        return Work.allCases.flatMap { work in
            crowds.map { crowd in
                Case(name: work.title(crowd.count), unit: work.unit) { duration in
                    // There are many cases.
                    measure(work, crowd, duration / 2)
                }
            }
        }
    }

    private static func measure(_ work: Work, _ crowd: Crowd, _ duration: Int) -> Double {
        switch work {
        case .memory: PeerMemory.child(crowd.count, networks: networksPerPeer) ?? .nan
        case .parse: timed(duration, count: crowd.count) { keep(crowd.parse()) }
        case .add:
            timedInside(duration, count: crowd.count) {
                let empty = Holder()
                return crowd.configure(empty).time
            }
        case .replace: timedInside(duration, count: crowd.count) { crowd.configure(crowd.holder).time }
        case .longestFirst: Double(crowd.configure(Holder()).longest) / 1_000
        case .longestPiece: Double(crowd.configure(crowd.holder).longest) / 1_000
        case .longestAddition: Double(crowd.configure(Holder(), addsPeers: true).longest) / 1_000
        case .show: timed(duration, count: crowd.count) { keep(crowd.show()) }
        case .timers: timedInside(duration, count: crowd.count) { crowd.runTimers() }
        case .lookup: timed(duration, count: crowd.addresses.count) { keep(crowd.lookUp()) }
        }
    }

    /// The greatest size's cost to the least one's.
    private static func growth(_ rows: [Row], _ sizes: [Int]) -> [Row] {
        guard let suite = rows.first?.suite, let least = sizes.first, let most = sizes.last else { return [] }
        return Work.allCases.filter { $0.unit != .microseconds }.compactMap { work in
            guard let small = rows.first(where: { $0.name == work.title(least) }),
                let large = rows.first(where: { $0.name == work.title(most) })
            else { return nil }
            return Row(
                suite, "\(work.rawValue), \(most) / \(least) peers", .ratio,
                samples: zip(large.samples, small.samples).map { $0 / $1 })
        }
    }

    /// An engine that is up.
    private final class Holder {
        var engine = Engine(random: SeededGenerator(seed: 5))

        init() { engine.setUp(true, at: Instant(nanoseconds: 1), wall: WallTime(seconds: 1)) }
    }

    /// An engine with peers, and its configuration. The peers have a keepalive and no endpoint, so that their timers cause no
    /// handshake.
    private final class Crowd {
        let count: Int
        let holder = Holder()
        let addresses: [IPAddress]
        private let update: UAPIDeviceUpdate
        /// The same peers, added to those of the engine.
        private let addition: UAPIDeviceUpdate
        private let request: [UInt8]
        private var now = Instant(nanoseconds: 3_600_000_000_000)
        private let wall = WallTime(seconds: 1_700_000_000)
        /// The size of the previous reply. A device reserves the space for its reply as well.
        private var replyByteCount = 0

        init(_ count: Int) throws {
            self.count = count
            var random = SeededGenerator(seed: 52)
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(PrivateKey(using: &random))
            update.replacePeers = true
            update.peers = try (0..<count).map { number in
                guard let key = PublicKey(bytes: random.bytes(32)) else { throw BenchmarkError("no key") }
                var peer = UAPIPeerUpdate(publicKey: key)
                peer.persistentKeepalive = 25
                peer.replaceAllowedIPs = true
                peer.allowedIPs = networks(number).map { .add($0) }
                return peer
            }
            self.update = update
            var addition = update
            addition.replacePeers = false
            self.addition = addition
            var request: [UInt8] = []
            update.appendRequest(to: &request)
            self.request = request
            addresses = (0..<8192).map { index in
                let network = networks(random.int(in: 0..<count))
                return network[index % network.count].address
            }
            _ = configure(holder)
            guard parse() == count, holder.engine.peerCount == count else {
                throw BenchmarkError("the request is not understood")
            }
        }

        func parse() -> Int {
            var parser = UAPIRequestParser()
            parser.feed(request)
            guard case .success(.set(let update))? = parser.next() else { return 0 }
            return update.peers.count
        }

        /// Applies the update as a device does. Returns the whole time, and the longest time for which the engine is held.
        func configure(_ holder: Holder, addsPeers: Bool = false) -> (time: Int, longest: Int) {
            let update = addsPeers ? addition : self.update
            var progress = UpdateProgress()
            var (time, longest, hasMore) = (0, 0, true)
            while hasMore {
                let start = nanoseconds()
                hasMore = holder.engine.apply(
                    update, &progress, work: WireGuardDevice.updateWork, at: now, wall: wall)
                let piece = nanoseconds() - start
                longest = max(longest, piece)
                time += piece + elapsed { progress.buildTable(of: update) }
            }
            return (time, longest)
        }

        /// The reply to `wg show`, read as a device reads it. Returns its size in bytes.
        func show() -> Int {
            var state = UAPIDeviceState()
            state.peers.reserveCapacity(count)
            var place: Int? = 0
            while let start = place {
                let piece = holder.engine.snapshots(from: start, work: 256)
                for peer in piece.peers { state.peers.append(UAPIPeerState(peer)) }
                place = piece.next
            }
            var reply: [UInt8] = []
            reply.reserveCapacity(replyByteCount)
            state.appendReply(to: &reply)
            replyByteCount = reply.count
            return reply.count
        }

        /// Lets the keepalive of every peer become due. Returns the time.
        func runTimers() -> Int {
            now = now + .seconds(26)
            return elapsed { while holder.engine.deadlineReached(at: now, wall: wall) > 0 {} }
        }

        /// Returns the number of addresses that have a peer.
        func lookUp() -> Int {
            var found = 0
            for address in addresses where holder.engine.peer(routing: address) != nil { found += 1 }
            return found
        }
    }
}
