// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("File descriptors")
struct FileDescriptorTests {
    @Test("An owned descriptor is closed when its owner is released, and not before")
    func owned() throws {
        let (reader, writer) = try makeDescriptorPair()
        do {
            let owned = OwnedDescriptor(writer)
            #expect(!isAtEnd(reader))
            #expect(owned.number == writer)
        }
        #expect(reachesEnd(reader))
        close(reader)
    }

    @Test("A descriptor that was taken stays open")
    func taken() throws {
        let (reader, writer) = try makeDescriptorPair()
        let number = OwnedDescriptor(writer).release()
        #expect(number == writer)
        #expect(!isAtEnd(reader))
        close(writer)
        #expect(reachesEnd(reader))
        close(reader)
    }

    @Test("A shared descriptor is closed when the last use ends, once, and gives no more uses")
    func shared() throws {
        let (reader, writer) = try makeDescriptorPair()
        let shared = SharedDescriptor(OwnedDescriptor(writer))
        #expect(shared.acquire())
        #expect(shared.acquire())
        shared.release()
        shared.close()
        #expect(shared.isClosed)
        #expect(!isAtEnd(reader))
        #expect(!shared.acquire())
        #expect(!isAtEnd(reader))
        shared.release()
        #expect(reachesEnd(reader))
        // The number is another's now: closing again must leave that alone.
        let other = dup(reader)
        shared.close()
        #expect(!shared.acquire())
        #expect(fcntl(other, F_GETFD) >= 0)
        close(other)
        close(reader)
    }

    @Test("SharedDescriptor closes its file in deinit")
    func sharedDeinit() throws {
        let (reader, writer) = try makeDescriptorPair()
        do {
            let shared = SharedDescriptor(OwnedDescriptor(writer))
            #expect(shared.number == writer)
        }
        #expect(reachesEnd(reader))
        close(reader)
    }

    @Test("A closing thread and using threads never close twice or use a closed number")
    func race() async throws {
        for _ in 0..<50 {
            let (reader, writer) = try makeDescriptorPair()
            let shared = SharedDescriptor(OwnedDescriptor(writer))
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        while shared.acquire() {
                            let isOpen = fcntl(shared.number, F_GETFD) >= 0
                            #expect(isOpen)
                            shared.release()
                            // There may be fewer threads than tasks.
                            await Task.yield()
                        }
                    }
                }
                group.addTask { shared.close() }
            }
            #expect(reachesEnd(reader))
            close(reader)
        }
    }

    @Test("A call is repeated while a signal interrupts it, and other failures are thrown")
    func systemCalls() throws {
        var calls = 0
        let result = SystemCall.retry { () -> Int32 in
            calls += 1
            errno = EINTR
            return calls < 3 ? -1 : 5
        }
        #expect(result == 5)
        #expect(calls == 3)
        #expect(try SystemCall.check("try") { Int32(7) } == 7)
        #expect(throws: SystemError("try", errno: EACCES)) {
            try SystemCall.check("try") { () -> Int32 in
                errno = EACCES
                return -1
            }
        }
    }
}
