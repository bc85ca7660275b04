// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import Synchronization
import TunnelIO
import WireGuardCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Looks the names of endpoints up, all at once and with a deadline.
enum EndpointLookup {
    /// The addresses of those endpoints whose host is a name.
    /// - Parameter timeout: for all of them together.
    static func resolve(
        _ endpoints: [EndpointAddress], within timeout: Duration
    ) throws(Failure) -> [EndpointAddress: Endpoint] {
        let names = Set(endpoints.filter { $0.endpoint == nil })
        guard !names.isEmpty else { return [:] }
        let board = Board(expected: names.count)
        for name in names {
            do throws(TunnelIOError) {
                // A lookup cannot be cancelled; one that hangs is left to itself.
                _ = try LoopThread(name: "culvert-lookup") { board.add(name, lookUp(name)) }
            } catch {
                throw Failure(error)
            }
        }
        let answers = board.wait(until: LaneClock.deadline(after: timeout))
        var result: [EndpointAddress: Endpoint] = [:]
        for name in names {
            guard let answer = answers[name] else {
                throw Failure(CULVERT_NO_ADDRESS, "the host of \(name) was not found within \(timeout)")
            }
            result[name] = try answer.get()
        }
        return result
    }

    private typealias Answer = Result<Endpoint, Failure>

    /// What the lookups have found so far.
    private final class Board: Sendable {
        private let answers = Mutex<[EndpointAddress: Answer]>([:])
        private let expected: Int
        private let monitor = Monitor(false)

        init(expected: Int) { self.expected = expected }

        func add(_ name: EndpointAddress, _ answer: Answer) {
            let isComplete = answers.withLock { answers in
                answers[name] = answer
                return answers.count == expected
            }
            guard isComplete else { return }
            monitor.update { isDone in
                isDone = true
                return true
            }
        }

        func wait(until deadline: Int64) -> [EndpointAddress: Answer] {
            _ = monitor.wait(until: deadline) { $0 ? () : nil }
            return answers.withLock { $0 }
        }
    }

    private static func lookUp(_ name: EndpointAddress) -> Answer {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(name.host, nil, &hints, &list)
        guard code == 0 else {
            let reason = unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
            return .failure(Failure(CULVERT_NO_ADDRESS, "the host of \(name) has no address: \(reason)"))
        }
        defer { unsafe freeaddrinfo(list) }
        var next = unsafe list
        while let entry = unsafe next {
            if let address = unsafe address(entry.pointee.ai_addr) {
                return .success(Endpoint(address: address, port: name.port))
            }
            unsafe next = entry.pointee.ai_next
        }
        return .failure(Failure(CULVERT_NO_ADDRESS, "the host of \(name) has no address: the answer is empty"))
    }

    @unsafe
    private static func address(_ pointer: UnsafeMutablePointer<sockaddr>?) -> IPAddress? {
        guard let pointer = unsafe pointer else { return nil }
        let raw = UnsafeRawPointer(pointer)
        switch unsafe Int32(pointer.pointee.sa_family) {
        case AF_INET:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in.self)
            return IPAddress(v4: UInt32(bigEndian: name.sin_addr.s_addr))
        case AF_INET6:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in6.self)
            return unsafe withUnsafeBytes(of: name.sin6_addr) { bytes in
                let (high, low) = unsafe (
                    bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
                )
                return IPAddress(v6High: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
            }
        default: return nil
        }
    }
}
