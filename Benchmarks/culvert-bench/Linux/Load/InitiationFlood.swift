// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// A session in use, while an attacker that has only the public key sends initiations: 100,000 a second, or as many as the
/// machine can send.
enum InitiationFlood {
    static let suite = "Session beside a flood of initiations, two devices, 1420-byte packets"

    static func suites(isQuick: Bool) -> [Suite] {
        [Suite(name: suite) { isQuick in try cases(flooding: isQuick ? 20_000 : 100_000) }]
    }

    private static func cases(flooding rate: Int) throws -> [Case] {
        let pair = try DevicePair()
        let flood = try Flood(of: pair.right.publicKey, at: pair.right.listenPort, perSecond: rate)
        // The longest wait in each state and the offered load, from the preceding run of the same turn.
        var (alone, beside, offered) = (Double.nan, Double.nan, Double.nan)
        func packets(_ duration: Int) -> Double {
            var hasFailed = false
            let time = timed(duration, count: 2_000) {
                do { try pair.send(2_000) } catch { hasFailed = true }
            }
            return hasFailed ? .nan : time
        }
        /// The longest time that another thread waited for the engine, in microseconds. It is longer than the lock was held:
        /// the thread waits for a processor as well.
        func watched(_ body: () -> Double) -> (Double, longest: Double) {
            let probe = Background {
                let start = nanoseconds()
                keep(pair.right.engineStatistics.handshakesCompleted)
                let waited = nanoseconds() - start
                usleep(200)
                return waited
            }
            let result = body()
            return (result, Double(probe.end()) / 1000)
        }
        return [
            Case(name: "nothing beside", unit: .nanosecondsPerPacket) { duration in
                let (time, longest) = watched { packets(duration) }
                alone = longest
                return time
            },
            Case(name: "beside the flood", unit: .nanosecondsPerPacket) { duration in
                let sender = Background { flood.burst() }
                let start = nanoseconds()
                let before = flood.sent
                let (time, longest) = watched { packets(duration) }
                offered = Double(flood.sent - before) * 1e9 / Double(nanoseconds() - start)
                _ = sender.end()
                beside = longest
                return time
            },
            Case(name: "initiations offered", unit: .perSecond) { _ in offered },
            Case(name: "longest wait for the engine, nothing beside", unit: .microseconds) { _ in alone },
            Case(name: "longest wait for the engine, beside the flood", unit: .microseconds) { _ in beside },
        ]
    }

    /// Work that a separate thread repeats.
    private final class Background: Sendable {
        private let isStopped = Atomic(false)
        private let greatest = Atomic<Int>(0)
        private let ended = Event()

        init(_ work: @escaping () -> Int) {
            // Only the thread uses it until the thread has ended.
            nonisolated(unsafe) let work = work
            Thread.detachNewThread { [self] in
                while !isStopped.load(ordering: .relaxed) {
                    let figure = unsafe work()
                    if figure > greatest.load(ordering: .relaxed) { greatest.store(figure, ordering: .relaxed) }
                }
                ended.signal()
            }
        }

        /// - Returns: The largest result of the work.
        func end() -> Int {
            isStopped.store(true, ordering: .relaxed)
            _ = ended.wait(timeout: .seconds(10))
            return greatest.load(ordering: .relaxed)
        }
    }

    /// Initiations that are valid except for their sender.
    private final class Flood {
        private static let burst = 64
        private let socket: LinuxUDPSocket
        private let datagrams: PacketBatch
        private let interval: Int
        private var due = 0
        private let count = Atomic<Int>(0)

        var sent: Int { count.load(ordering: .relaxed) }

        init(of key: PublicKey?, at port: UInt16?, perSecond rate: Int) throws {
            guard let key, let port else { throw BenchmarkError("the device is not up") }
            socket = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            datagrams = try PacketBatch(packetCapacity: Self.burst, byteCapacity: Self.burst * 2048)
            interval = Self.burst * 1_000_000_000 / rate
            let target = Endpoint(address: .v4(0x7f00_0001), port: port)
            let (now, wall) = (Instant(nanoseconds: 3_600_000_000_000), WallTime(seconds: 1_700_000_000))
            for number in 0..<Self.burst {
                var random = SeededGenerator(seed: UInt64(500 + number))
                var engine = Engine(random: random)
                engine.setPrivateKey(PrivateKey(using: &random))
                engine.addPeer(key)
                engine.setEndpoint(target, of: key)
                guard let all = IPPrefix(.v4(0), length: 0) else { throw BenchmarkError("no prefix") }
                engine.addAllowedIP(all, to: key)
                engine.setUp(true, at: now, wall: wall)
                guard let initiation = engine.send(Pair.greeting, at: now, wall: wall).first else {
                    throw BenchmarkError("no initiation")
                }
                datagrams.append(copying: initiation.bytes, endpoint: target)
            }
        }

        deinit { socket.close() }

        /// Sends the next initiations when they are due. Those that the system refuses are not repeated.
        func burst() -> Int {
            let now = nanoseconds()
            if due < now - 100_000_000 { due = now }
            guard now >= due else {
                usleep(UInt32(min((due - now) / 1000, 1000)))
                return 0
            }
            due += interval
            guard let result = try? socket.send(datagrams, in: 0..<Self.burst) else { return 0 }
            count.add(result.sent, ordering: .relaxed)
            return 0
        }
    }
}
