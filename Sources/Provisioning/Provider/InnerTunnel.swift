// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import Synchronization
import WireGuardCore
import WireGuardTunnel

/// The keys of a provider's inner tunnel. They are in memory only, while the tunnel is up.
final class HeldKeys: Sendable {
    static let presharedKeyName = "preshared-key"

    private let secrets = Mutex<[String: SecretBytes]>([:])

    func secret(_ name: String) -> SecretBytes? { secrets.withLock { $0[name] } }

    func hold(_ key: PrivateKey, _ presharedKey: PresharedKey? = nil) {
        var held = [WireGuardTunnelConfiguration.defaultPrivateKeyName: SecretBytes(key.secret)]
        held[Self.presharedKeyName] = presharedKey.map { SecretBytes($0.secret) }
        secrets.withLock { $0 = held }
    }

    func clear() { secrets.withLock { $0 = [:] } }
}

/// The host of a provider's inner tunnel: the outer host, except that this type provides the keys and handles the end
/// of the tunnel.
struct InnerHost: ProviderHost {
    let outer: ProviderContext
    let keys: HeldKeys
    /// Called when no data arrives, so that the provider can try another server.
    let isLost: @Sendable (TunnelError) -> Void
    /// Called when the tunnel carries packets.
    var isProven: @Sendable () -> Void = {}

    func apply(_ settings: TunnelSettings) async throws(TunnelError) { try await outer.apply(settings) }

    func setReasserting(_ isReasserting: Bool) {
        if !isReasserting { isProven() }
        outer.setReasserting(isReasserting)
    }

    func cancel(_ error: TunnelError) {
        if error.code == .connectivityLost { isLost(error) } else { outer.cancel(error) }
    }

    func secret(_ name: String) async throws(TunnelError) -> SecretBytes {
        let isHeld = [WireGuardTunnelConfiguration.defaultPrivateKeyName, HeldKeys.presharedKeyName].contains(name)
        guard isHeld else { return try await outer.secret(name) }
        guard let secret = keys.secret(name) else { throw TunnelError(.stopped, "the tunnel has ended") }
        return secret
    }

    func keepSecret(_ secret: SecretBytes, _ name: String) async throws(TunnelError) {
        try await outer.keepSecret(secret, name)
    }

    func outsideNameServers() async -> [IPAddress] { await outer.outsideNameServers() }
}

extension WireGuardEnvironment {
    /// Resolves the names of servers outside the tunnel, if the system's lookups would use the tunnel or be blocked:
    /// while the tunnel is up, and under leak policies that block.
    func located(
        _ servers: [ProvisioningServer], isUp: Bool, policy: LeakPolicy, path: NetworkPath, _ context: ProviderContext
    ) async -> [ProvisioningServer] {
        let isHeldBack = isUp || max(policy, context.leakPolicy).blocksAfterFailure
        guard isHeldBack, let mark = context.socketMark else { return servers }
        let bypass = TunnelBypass(network: network, mark: mark, servers: await context.outsideNameServers())
        let lookup = EndpointLookup(
            resolver: resolver, clock: context.clock, timeout: .seconds(5), bypass: bypass)
        var located: [ProvisioningServer] = []
        for server in servers {
            guard server.address == nil, let place = try? EndpointAddress(host: server.name, port: server.port) else {
                located.append(server)
                continue
            }
            do throws(TunnelError) {
                for endpoint in try await lookup.endpoints(of: place, on: path).prefix(4) {
                    var there = server
                    there.address = endpoint.address
                    located.append(there)
                }
            } catch {
                context.logger.warning("\(error)")
                located.append(server)
            }
        }
        return located
    }
}
