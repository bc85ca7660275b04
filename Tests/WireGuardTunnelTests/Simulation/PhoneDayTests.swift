// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO

@testable import WireGuardTunnel

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

@Suite("A phone's day", .timeLimit(.minutes(60)), .enabled(if: JobLoop.isSupported, "needs Linux"))
struct PhoneDayTests {
    /// Set `CULVERT_DAYS` for more days, and `CULVERT_DAY_SEED` to begin with another seed.
    private static func number(_ name: String, default value: Int) -> Int {
        guard let text = unsafe getenv(name) else { return value }
        return unsafe Int(String(cString: text)) ?? value
    }

    /// Runs days on separate threads, because a day runs its tasks on its thread.
    private static func live(
        _ seeds: [UInt64], length: Duration = .seconds(86_400), lanes: Int
    ) async throws -> PhoneDay.Figures {
        let next = Atomic<Int>(0)
        let state = Mutex((figures: PhoneDay.Figures(), running: lanes))
        return try await withCheckedThrowingContinuation { continuation in
            for _ in 0..<lanes {
                do throws(TunnelIOError) {
                    _ = try LoopThread(name: "day") {
                        while true {
                            let index = next.add(1, ordering: .relaxed).oldValue
                            guard index < seeds.count else { break }
                            let figures = PhoneDay(seed: seeds[index], length: length).run()
                            state.withLock { $0.figures.add(figures) }
                        }
                        let result = state.withLock { state in
                            state.running -= 1
                            return state.running == 0 ? state.figures : nil
                        }
                        if let result { continuation.resume(returning: result) }
                    }
                } catch {
                    continuation.resume(throwing: error)
                    return
                }
            }
        }
    }

    /// The log of the first day with a problem.
    private static func log(ofFirst problems: [String]) -> String {
        guard let text = problems.first?.split(separator: " ").dropFirst().first?.dropLast(), let seed = UInt64(text)
        else { return "" }
        let day = PhoneDay(seed: seed, keepsLog: true)
        _ = day.run()
        return "Repeat with CULVERT_DAYS=1 CULVERT_DAY_SEED=\(seed) and --filter PhoneDayTests\n"
            + day.log.suffix(150).joined(separator: "\n")
    }

    @Test(
        "A tunnel is never connected while dead, never leaks, never stays down, and delivers packets once, unaltered"
    )
    func days() async throws {
        let count = Self.number("CULVERT_DAYS", default: 6)
        let first = Self.number("CULVERT_DAY_SEED", default: 1)
        let seeds = (0..<count).map { UInt64(truncatingIfNeeded: first + $0) }
        let figures = try await Self.live(seeds, lanes: min(count, 4))
        print(
            "phone's days: \(figures.days) days, \(Int(figures.awake / .seconds(3_600))) h awake,",
            "\(figures.starts) starts, \(figures.outages) outages, \(figures.sent) packets, \(figures.echoed) echoed,",
            "\(figures.blocked) blocked, \(figures.datagrams) datagrams, \(figures.jobs) jobs;",
            "worst time to notice \(figures.worstNotice), to heal \(figures.worstHeal)")
        if !figures.problems.isEmpty { print(Self.log(ofFirst: figures.problems)) }
        #expect(figures.problems.isEmpty, "\(figures.problems.prefix(5))")
        #expect(figures.days == count)
        #expect(figures.echoed > count * 20)
    }

    @Test("A day repeats exactly from its seed")
    func repeats() async throws {
        let one = try await Self.live([7], length: .seconds(36_000), lanes: 1)
        let other = try await Self.live([7], length: .seconds(36_000), lanes: 1)
        #expect(one.awake == other.awake)
        #expect(one.sent == other.sent)
        #expect(one.echoed == other.echoed)
        #expect(one.datagrams == other.datagrams)
        #expect(one.worstHeal == other.worstHeal)
    }
}
