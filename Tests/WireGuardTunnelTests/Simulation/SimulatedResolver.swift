// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import WireGuardCore

@testable import WireGuardTunnel

/// The name servers of the phone's network, which may be slow, unreachable, false or mapping, like the network.
final class SimulatedResolver: EndpointResolver, @unchecked Sendable {
    /// The behaviour of name servers, apart from that of the network.
    enum Mood {
        case good
        case slow
        case failing
        /// They never answer.
        case silent
    }

    private let world: SimulatedWorld
    private var random: SeededGenerator
    var mood = Mood.good
    private(set) var asked = 0

    init(world: SimulatedWorld, seed: UInt64) {
        self.world = world
        random = SeededGenerator(seed: seed &+ 13)
    }

    func resolve(_ name: String, around bypass: TunnelBypass) async throws(TunnelError) -> [IPAddress] {
        try await resolve(name)
    }

    func resolve(_ name: String) async throws(TunnelError) -> [IPAddress] {
        asked += 1
        let failure = TunnelError(.nameResolutionFailed, "'\(name)' has no address")
        guard let attached = world.attached else { throw failure }
        let delay: Duration =
            switch mood {
            case .good: .milliseconds(random.int(in: 5...150))
            case .slow: .milliseconds(random.int(in: 1_000...8_000))
            case .failing: .milliseconds(random.int(in: 5...2_000))
            case .silent: .seconds(86_400)
            }
        let isFailing = mood == .failing
        do { try await world.clock.sleep(for: delay) } catch { throw failure }
        let network = world.networks[attached]
        // A question sent on another network gets no answer.
        guard !isFailing, world.attached == attached, !network.isCut else { throw failure }
        if network.isCaptive { return [.v4(10, 1, 1, 1)] }
        if name == NAT64Prefix.discoveryName {
            guard let prefix = network.nat64 else { return NAT64Prefix.wellKnown.map { .v4($0) } }
            return NAT64Prefix.wellKnown.map { prefix.embed($0) }
        }
        guard name == SimulatedWorld.serverName else { throw failure }
        let v4 = world.serverV4(world.publishedNumber)
        var answer: [IPAddress] = [.v4(v4)]
        if world.serverHasIPv6 {
            answer.append(world.serverV6(world.publishedNumber))
        } else if let prefix = network.nat64, network.hasDNS64 {
            answer.append(prefix.embed(v4))
        }
        return answer
    }
}
