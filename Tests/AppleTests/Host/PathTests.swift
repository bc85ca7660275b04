// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Network
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

/// Tests that follow the way to the network, which is one for all monitors of a process: one after the other.
@Suite("With the system's network", .serialized)
enum OneNetworkTests {}

extension OneNetworkTests {
    @Suite("Paths of the system", .timeLimit(.minutes(5)))
    struct PathTests {
        static let wifi = NWInterface(standIn: "en0", type: .wifi, index: 4)
        static let cellular = NWInterface(standIn: "pdp_ip0", type: .cellular, index: 5)

        @Test("The system's paths come as they change, without the tunnel's own interface")
        func changes() async throws {
            defer { StandInPaths.change(to: NWPath(standIn: .satisfied, interfaces: [Self.wifi])) }
            let script = Script()
            let system = BridgeTests.system(script) { $0.watchesPath = true }
            try await system.start(BridgeTests.request)
            let own = NWInterface(standIn: "utun7", type: .other, index: 17)
            StandInPaths.change(to: NWPath(standIn: .satisfied, interfaces: [own, Self.cellular], isExpensive: true))
            await script.noted("path pdp_ip0")
            StandInPaths.change(to: NWPath(standIn: .unsatisfied, supportsIPv4: false, supportsIPv6: false))
            await script.noted("path none")
            await system.stop(.userInitiated)
        }

        @Test("The system's paths say what the system says")
        func translation() {
            let path = NetworkPath(
                NWPath(
                    standIn: .requiresConnection, interfaces: [Self.wifi, Self.cellular], isExpensive: true,
                    isConstrained: true, supportsIPv4: true, supportsIPv6: false))
            #expect(path.status == .requiresConnection)
            #expect(path.interfaces.map(\.kind) == [.wifi, .cellular])
            #expect(path.interfaces.map(\.index) == [4, 5])
            #expect(path.isExpensive && path.isConstrained && path.supportsIPv4 && !path.supportsIPv6)
        }

        @Test("The system's paths are watched no longer than the tunnel's host lives")
        func release() async throws {
            let (changes, before) = (Changes(), StandInPaths.monitorCount)
            StandInPaths.setRemovalHandler { changes.tell() }
            defer { StandInPaths.setRemovalHandler(nil) }
            do {
                let system = BridgeTests.system(Script()) { $0.watchesPath = true }
                try await system.start(BridgeTests.request)
                #expect(StandInPaths.monitorCount == before + 1)
                await system.stop(.userInitiated)
            }
            #expect(await changes.wait { StandInPaths.monitorCount == before })
        }
    }
}
