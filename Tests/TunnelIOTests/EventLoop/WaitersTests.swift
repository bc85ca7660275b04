// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing

@testable import TunnelIO

@Suite("Waiters", .timeLimit(.minutes(1)))
struct WaitersTests {
    private final class Flag: Sendable {
        private let value = Atomic<Bool>(false)
        var isSet: Bool { value.load(ordering: .acquiring) }
        func set() { value.store(true, ordering: .releasing) }
    }

    private static func wait(
        for flag: Flag, _ waiters: Waiters<TunnelIOError>, isReader: Bool = true
    ) -> Task<Int, any Error> {
        Task {
            try await waiters.next(isReader: isReader, unless: { false }) { () throws(TunnelIOError) -> Int? in
                flag.isSet ? 1 : nil
            }
        }
    }

    private static func until(_ count: Int, _ waiters: Waiters<TunnelIOError>) async {
        while waiters.count != count { await Task.yield() }
    }

    @Test("A readable descriptor wakes the tasks that read, and not those that wait for room")
    func readersOnly() async throws {
        let signal = try WakeSignal()
        let waiters = Waiters<TunnelIOError>(descriptors: [signal.descriptor]) { $0 }
        let (packet, room) = (Flag(), Flag())
        let writer = Self.wait(for: room, waiters, isReader: false)
        await Self.until(1, waiters)
        let reader = Self.wait(for: packet, waiters)
        await Self.until(2, waiters)
        packet.set()
        room.set()
        signal.raise()
        #expect(try await reader.value == 1)
        #expect(waiters.count == 1)
        waiters.wakeAll()
        #expect(try await writer.value == 1)
        waiters.close()
    }

    @Test("A task that waits before there is a descriptor is woken by the descriptor that is set later")
    func laterDescriptor() async throws {
        let waiters = Waiters<TunnelIOError> { $0 }
        let packet = Flag()
        let reader = Self.wait(for: packet, waiters)
        await Self.until(1, waiters)
        let signal = try WakeSignal()
        waiters.watch([signal.descriptor])
        packet.set()
        signal.raise()
        #expect(try await reader.value == 1)
        waiters.close()
    }

    @Test("Cancelling a task ends its wait with the failure of the waiters")
    func cancellation() async throws {
        struct Ended: Error, Equatable { let code: TunnelIOError.Code }
        let waiters = Waiters<Ended> { Ended(code: $0.code) }
        for isReader in [true, false] {
            let task = Task { () async -> Ended? in
                do throws(Ended) {
                    try await waiters.next(isReader: isReader, unless: { false }) { () throws(Ended) -> Void? in nil }
                    return nil
                } catch { return error }
            }
            while waiters.count == 0 { await Task.yield() }
            task.cancel()
            #expect(await task.value == Ended(code: .cancelled))
        }
        #expect(waiters.count == 0)
    }
}
