// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

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
        await Self.until(1, waiters)
        packet.set()
        signal.raise()
        #expect(try await reader.value == 1)
        waiters.close()
    }

    @Test("Closing wakes the tasks that read and those that wait for room")
    func close() async throws {
        let signal = try WakeSignal()
        let waiters = Waiters<TunnelIOError>(descriptors: [signal.descriptor]) { $0 }
        let isClosed = Flag()
        let reader = Self.wait(for: isClosed, waiters)
        let writer = Self.wait(for: isClosed, waiters, isReader: false)
        await Self.until(2, waiters)
        isClosed.set()
        waiters.close()
        #expect(try await reader.value == 1)
        #expect(try await writer.value == 1)
        #expect(waiters.count == 0)
        withExtendedLifetime(signal) {}
    }

    @Test("A change after the attempt and before the task waits is not missed")
    func changeBeforeWait() async throws {
        let signal = try WakeSignal()
        let waiters = Waiters<TunnelIOError>(descriptors: [signal.descriptor]) { $0 }
        for isReader in [true, false] {
            let flag = Flag()
            let value = try await waiters.next(isReader: isReader, unless: { flag.isSet }) {
                () throws(TunnelIOError) -> Int? in
                defer { flag.set() }
                return flag.isSet ? 1 : nil
            }
            #expect(value == 1)
        }
        waiters.close()
        withExtendedLifetime(signal) {}
    }

    @Test("A descriptor that the system cannot watch ends the wait with an error, after one more attempt")
    func unwatchable() async throws {
        for succeeds in [false, true] {
            // No process has this many.
            let waiters = Waiters<TunnelIOError>(descriptors: [.max]) { $0 }
            let tried = Flag()
            let task = Task {
                try await waiters.next(unless: { false }) { () throws(TunnelIOError) -> Int? in
                    defer { tried.set() }
                    return succeeds && tried.isSet ? 1 : nil
                }
            }
            if succeeds {
                #expect(try await task.value == 1)
            } else {
                let error = await #expect(throws: TunnelIOError.self) { try await task.value }
                #expect(error?.errno == EBADF)
            }
            waiters.close()
        }
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
