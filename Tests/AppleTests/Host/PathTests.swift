// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Network
import PacketTunnelTesting
import Synchronization
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

        /// A start that waits for the system's first path. The system withholds it until the test calls `StandInPaths.release()`.
        private struct WaitingStart {
            let script = Script()
            let clock = VirtualClock()
            let system: SystemSide<ScriptedProvider>
            let task: Task<Void, any Error>

            init() async throws {
                StandInPaths.withhold()
                let clock = clock
                let system = BridgeTests.system(script) {
                    $0.watchesPath = true
                    $0.clock = clock
                }
                self.system = system
                task = Task { try await system.start(BridgeTests.request) }
                if await !clock.hasSleepers() {
                    StandInPaths.release()
                    Issue.record("the start does not wait for a path")
                    throw Overdue()
                }
            }
        }

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

        @Test("A start waits for the system's first path")
        func firstPath() async throws {
            let start = try await WaitingStart()
            defer { StandInPaths.release() }
            let (script, system) = (start.script, start.system)
            #expect(script.calls.messages.isEmpty)
            StandInPaths.release()
            try await start.task.value(within: .seconds(60))
            #expect(script.context?.path.status == .satisfied)
            #expect(script.context?.path.interfaces.map(\.name) == ["en0"])
            await system.stop(.userInitiated)
            // The next start of the process has nothing to wait for.
            try await system.start(BridgeTests.request)
            await system.stop(.userInitiated)
            #expect(system.unbalanced.missing == 0)
        }

        @Test("A start without a path from the system begins at its deadline, and the provider tries the network")
        func noPath() async throws {
            let start = try await WaitingStart()
            defer { StandInPaths.release() }
            let (script, system) = (start.script, start.system)
            start.clock.advance(by: NetworkExtensionBridge<ScriptedProvider>.pathDeadline)
            try await start.task.value(within: .seconds(60))
            #expect(script.context?.path.isCutOff == false)
            StandInPaths.release()
            await script.noted("path en0")
            await system.stop(.userInitiated)
        }

        @Test("A stop before the system's first path ends the start for good")
        func stopsBeforePath() async throws {
            let start = try await WaitingStart()
            defer { StandInPaths.release() }
            let (script, system) = (start.script, start.system)
            await system.stop(.userInitiated)
            let error = await #expect(throws: TunnelError.self) { try await start.task.value(within: .seconds(60)) }
            #expect(error?.code == .stopped)
            StandInPaths.release()
            // The first start would have begun before this one.
            try await system.start(BridgeTests.request)
            #expect(script.calls.messages.filter { $0 == "start" }.count == 1)
            await system.stop(.userInitiated)
            #expect(system.unbalanced.missing == 0 && system.unbalanced.repeated.isEmpty)
        }

        @Test("Another Wi-Fi network on the same interface is reported as another way; repeated paths are not reported")
        func sameInterface() async throws {
            let own = NWInterface(standIn: "utun7", type: .other, index: 17)
            func path(_ network: Int, _ interfaces: [NWInterface] = [Self.wifi]) -> NWPath {
                NWPath(standIn: .satisfied, interfaces: interfaces, network: network)
            }
            defer { StandInPaths.change(to: path(0)) }
            let reported = Mutex<[NetworkPath]>([])
            let changes = Changes()
            let watcher = PathWatcher { "utun7" }
            watcher.start { path in
                reported.withLock { $0.append(path) }
                changes.notify()
            }
            #expect(await changes.wait { reported.withLock { $0.count } == 1 })
            // A repetition; the tunnel's own interface; another network, twice; the own interface; another interface.
            StandInPaths.change(to: path(0))
            StandInPaths.change(to: path(0, [own, Self.wifi]))
            StandInPaths.change(to: path(1, [own, Self.wifi]))
            StandInPaths.change(to: path(1, [own, Self.wifi]))
            StandInPaths.change(to: path(2, [own, Self.wifi]))
            StandInPaths.change(to: path(2))
            StandInPaths.change(to: path(2, [Self.cellular]))
            #expect(await changes.wait { reported.withLock { $0.last?.interfaces.first?.name } == "pdp_ip0" })
            watcher.stop()
            let paths = reported.withLock { $0 }
            #expect(paths.map { $0.interfaces.map(\.name) } == [["en0"], ["en0"], ["en0"], ["pdp_ip0"]])
            for (path, next) in zip(paths, paths.dropFirst()) { #expect(!next.isSameWay(as: path)) }
        }

        @Test("Paths have the properties that the system reports")
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
            StandInPaths.setRemovalHandler { changes.notify() }
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
