// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
import TunnelIO

/// Turns host names into addresses.
public protocol EndpointResolver: Sendable {
    /// Returns the addresses of `name` in both families, the preferred ones first. The caller applies a time limit, and
    /// abandons a slow lookup.
    /// - Throws: `.nameResolutionFailed`.
    func resolve(_ name: String) async throws(TunnelError) -> [IPAddress]

    /// Resolves a name with `bypass` while a tunnel is up or blocks everything. The system's resolver would send its
    /// queries through the tunnel. A resolver that does not use the system's may return the same as ``resolve(_:)``.
    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress]
}

/// Resolves names with `getaddrinfo`, on a separate thread for each lookup, so that a lookup that hangs blocks no
/// other.
public struct SystemEndpointResolver: EndpointResolver {
    /// The number of lookups that have not returned, including abandoned ones.
    private static let pending = Atomic<Int>(0)
    private static let mostPending = 32

    /// The system's resolver.
    public init() {}

    /// The addresses of `name`, in the system's order.
    public func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        try await onThread(name) { Self.lookUp(name) }
    }

    /// Returns the addresses of `name` from the hosts file, or else from the name servers of the network outside the
    /// tunnel, over sockets that bypass the tunnel. The system's resolver would send its queries through the tunnel, or
    /// be blocked.
    public func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress] {
        let own = HostsFile.addresses(of: name, in: HostsFile.text)
        guard own.isEmpty else { return own }
        // Without name servers, only the system may be able to resolve the name.
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

    /// Runs a lookup, which may block, on a separate thread.
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
