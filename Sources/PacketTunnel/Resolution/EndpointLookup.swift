// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import TunnelSystem

/// Finds the addresses of a peer for a network path: resolves names, and maps IPv4 addresses if there is only IPv6.
package struct EndpointLookup: Sendable {
    var resolver: any EndpointResolver
    var clock: any Clock<Duration>
    var timeout: Duration
    /// The bypass around a tunnel that is up or blocks everything; `nil` if none is needed.
    var bypass: TunnelBypass?

    package init(
        resolver: any EndpointResolver, clock: any Clock<Duration>, timeout: Duration, bypass: TunnelBypass? = nil
    ) {
        self.resolver = resolver
        self.clock = clock
        self.timeout = timeout
        self.bypass = bypass
    }

    /// The endpoints to try, the preferred one first; never empty.
    /// - Throws: `.nameResolutionFailed`; `.networkUnavailable` if the path supports no address family of the peer.
    package func endpoints(of address: EndpointAddress, on path: NetworkPath) async throws(TunnelError) -> [Endpoint] {
        if let literal = address.endpoint, literal.isIPv6 { return [literal] }
        let found: [IPAddress]
        if let literal = try? IPAddress(address.host) {
            found = [literal]
        } else {
            found = try await resolve(address.host)
        }
        let usable = await Self.order(found, on: path) { await self.prefixes() }
        guard !usable.isEmpty else {
            throw TunnelError(
                .networkUnavailable,
                "\(address) has \(found.contains(where: \.isIPv6) ? "IPv6" : "IPv4") addresses only, which this network has "
                    + "no way to", fix: "use another network, or give the server addresses of both families")
        }
        return usable.map { Endpoint(address: $0, port: address.port) }
    }

    private func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        let (resolver, timeout, bypass) = (resolver, timeout, bypass)
        let outcome = await withDeadline(timeout, clock: clock) { () async -> Result<[IPAddress], TunnelError> in
            do throws(TunnelError) {
                guard let bypass else { return .success(try await resolver.resolve(name)) }
                return .success(try await resolver.resolve(name, around: bypass))
            } catch {
                return .failure(error)
            }
        }
        guard case .finished(let answer) = outcome else {
            throw TunnelError(
                .nameResolutionFailed, "'\(name)' was not resolved within \(timeout)",
                fix: "check the network's name servers")
        }
        let addresses = try answer.get()
        guard !addresses.isEmpty else {
            throw TunnelError(
                .nameResolutionFailed, "'\(name)' has no address", fix: "check the server's name")
        }
        return addresses
    }

    private func prefixes() async -> [NAT64Prefix] {
        do throws(TunnelError) {
            return NAT64Prefix.discover(from: try await resolve(NAT64Prefix.discoveryName))
        } catch {
            return []
        }
    }

    /// The reachable addresses on a path: IPv4 first, because its headers are smaller. On a path with only IPv6, IPv4
    /// addresses are mapped with the network's prefixes, after the IPv6 addresses.
    static func order(
        _ addresses: [IPAddress], on path: NetworkPath, prefixes: () async -> [NAT64Prefix]
    ) async -> [IPAddress] {
        // Addresses in an attached network can be reached without a default route of their family.
        let attached = addresses.filter { address in path.attachedNetworks.contains { $0.contains(address) } }
        let v4 = addresses.filter { !$0.isIPv6 }
        let v6 = addresses.filter(\.isIPv6)
        let other = attached.filter { $0.isIPv6 ? !path.supportsIPv6 : !path.supportsIPv4 }
        switch (path.supportsIPv4, path.supportsIPv6) {
        case (true, true), (false, false): return v4 + v6
        case (true, false): return v4 + other
        case (false, true):
            // If there are IPv6 addresses, a resolver with DNS64 has already mapped the others.
            guard v6.isEmpty, !v4.isEmpty, other.isEmpty else { return v6 + other }
            let prefixes = await prefixes()
            return v4.flatMap { address in prefixes.map { $0.embed(UInt32(truncatingIfNeeded: address.low)) } }
        }
    }
}
