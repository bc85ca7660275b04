// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
import TunnelIO

/// Turns host names into addresses.
public protocol EndpointResolver: Sendable {
    /// Returns the addresses of `name` in both families, the preferred ones first. The caller bounds the time, and abandons a
    /// slow lookup.
    /// - Throws: `.nameResolutionFailed`.
    func resolve(_ name: String) async throws(TunnelError) -> [IPAddress]

    /// Resolves while a tunnel is up or blocks everything, with `bypass`. A resolver that does not use the system's may
    /// answer like ``resolve(_:)``; the system's would ask through the tunnel.
    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress]
}

/// Asks the system, with `getaddrinfo`, on a thread for each lookup: one that hangs holds up nothing else.
public struct SystemEndpointResolver: EndpointResolver {
    /// Lookups that have not returned, abandoned ones among them.
    private static let pending = Atomic<Int>(0)
    private static let mostPending = 32

    /// The system's resolver.
    public init() {}

    /// The addresses of `name`, in the system's order.
    public func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        try await onThread(name) { Self.lookUp(name) }
    }

    /// The addresses of `name` by the machine's own table of names, or by the name servers of the network outside of the
    /// tunnel, asked over sockets that get past it. The system's own resolver would ask through the tunnel, or be held back.
    public func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress] {
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

    private typealias Answer = Result<[IPAddress], TunnelError>

    /// Runs a lookup on a separate thread, which it may block.
    private func onThread(
        _ name: String, _ lookUp: @escaping @Sendable () -> Answer
    ) async throws(TunnelError) -> [IPAddress] {
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

    private static func lookUp(_ name: String) -> Answer {
        do throws(HostLookupFailure) {
            return .success(try HostLookup.endpoints(of: name, port: 0).map(\.address))
        } catch {
            return .failure(failure(name, error.reason))
        }
    }
}
