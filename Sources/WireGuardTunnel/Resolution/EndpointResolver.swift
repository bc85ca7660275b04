// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// Turns host names into addresses.
public protocol EndpointResolver: Sendable {
    /// The addresses of `name` in both families, the preferred ones first. Who asks bounds the time, and leaves a lookup that
    /// takes too long to itself.
    /// - Throws: `.nameResolutionFailed`.
    func resolve(_ name: String) async throws(TunnelError) -> [NetworkAddress]

    /// The same while a tunnel is up or holds everything back, past which `bypass` leads. Who does not ask the system may answer
    /// as ``resolve(_:)`` does; the system would ask through the tunnel.
    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [NetworkAddress]
}

/// What `operation` gives, or nil when `limit` has passed or the caller's task is cancelled before that. Then the
/// operation's task is cancelled, and left to itself if it does not care.
func withTimeout<Value: Sendable>(
    _ limit: Duration, clock: any Clock<Duration>, _ operation: @escaping @Sendable () async -> Value
) async -> Value? {
    let (stream, continuation) = AsyncStream.makeStream(of: Value?.self, bufferingPolicy: .bufferingOldest(1))
    let work = Task { _ = continuation.yield(await operation()) }
    let timer = Task {
        do {
            try await clock.sleep(for: limit)
            continuation.yield(nil)
        } catch {
            // The operation was faster.
        }
    }
    defer {
        work.cancel()
        timer.cancel()
    }
    for await value in stream { return value }
    return nil
}
