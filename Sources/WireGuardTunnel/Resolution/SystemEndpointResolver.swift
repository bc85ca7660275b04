// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import Synchronization
import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Asks the system, with `getaddrinfo`, on a thread for each lookup: one that hangs holds up nothing else.
public struct SystemEndpointResolver: EndpointResolver {
    /// Lookups that have not returned, abandoned ones among them.
    private static let pending = Atomic<Int>(0)
    private static let mostPending = 32

    /// The system's resolver.
    public init() {}

    /// The addresses of `name`, in the system's order.
    public func resolve(_ name: String) async throws(TunnelError) -> [NetworkAddress] {
        try await onThread(name) { Self.lookUp(name) }
    }

    /// The addresses of `name` by the machine's own table of names, or by the name servers of the network outside of the
    /// tunnel, asked over sockets that get past it. The system's own resolver would ask through the tunnel, or be held back.
    public func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [NetworkAddress] {
        let own = HostsFile.addresses(of: name, in: HostsFile.text)
        guard own.isEmpty else { return own }
        // Then it is the system that may know a way.
        guard !bypass.servers.isEmpty else { return try await resolve(name) }
        return try await onThread(name) {
            do throws(TunnelError) {
                return .success(try BypassLookup(name: name, bypass: bypass).run())
            } catch {
                return .failure(error)
            }
        }
    }

    private typealias Answer = Result<[NetworkAddress], TunnelError>

    /// Runs a lookup that waits on a thread of its own.
    private func onThread(
        _ name: String, _ lookUp: @escaping @Sendable () -> Answer
    ) async throws(TunnelError) -> [NetworkAddress] {
        guard Self.pending.add(1, ordering: .relaxed).newValue <= Self.mostPending else {
            Self.pending.subtract(1, ordering: .relaxed)
            throw Self.failure(name, "too many lookups hang")
        }
        let (stream, continuation) = AsyncStream.makeStream(of: Answer.self)
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-resolve") {
                continuation.yield(lookUp())
                continuation.finish()
                Self.pending.subtract(1, ordering: .relaxed)
            }
        } catch {
            Self.pending.subtract(1, ordering: .relaxed)
            throw Self.failure(name, error.description)
        }
        for await answer in stream { return try answer.get() }
        throw TunnelError(.closed, "the task was cancelled")
    }

    private static func failure(_ name: String, _ reason: String) -> TunnelError {
        TunnelError(
            .nameResolutionFailed, "'\(name)' has no address: \(reason)", fix: "check the server's name and the network"
        )
    }

    private static func lookUp(_ name: String) -> Result<[NetworkAddress], TunnelError> {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(name, nil, &hints, &list)
        guard code == 0 else {
            let reason = unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
            return .failure(failure(name, reason))
        }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [NetworkAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            // Each address comes once for each kind of socket.
            if let address = unsafe address(entry.pointee.ai_addr), !addresses.contains(address) {
                addresses.append(address)
            }
            unsafe next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(failure(name, "the answer is empty")) : .success(addresses)
    }

    @unsafe
    private static func address(_ pointer: UnsafeMutablePointer<sockaddr>?) -> NetworkAddress? {
        guard let pointer = unsafe pointer else { return nil }
        let raw = UnsafeRawPointer(pointer)
        switch unsafe Int32(pointer.pointee.sa_family) {
        case AF_INET:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in.self)
            return .v4(UInt32(bigEndian: name.sin_addr.s_addr))
        case AF_INET6:
            let name = unsafe raw.loadUnaligned(as: sockaddr_in6.self)
            return unsafe withUnsafeBytes(of: name.sin6_addr) { unsafe NetworkAddress(bytes: $0) }
        default: return nil
        }
    }
}
