// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Turns host names into addresses.
public protocol EndpointResolver: Sendable {
    /// The addresses of `name` in both families, the preferred ones first. Who asks bounds the time, and leaves a lookup that
    /// takes too long to itself.
    /// - Throws: `.nameResolutionFailed`.
    func resolve(_ name: String) async throws(TunnelError) -> [IPAddress]

    /// The same while a tunnel is up or holds everything back, past which `bypass` leads. Who does not ask the system may answer
    /// as ``resolve(_:)`` does; the system would ask through the tunnel.
    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress]
}
