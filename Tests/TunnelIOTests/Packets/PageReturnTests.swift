// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import PacketTunnelTesting
    import Testing

    @testable import TunnelIO

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    @Suite("Pages go back after a burst", .timeLimit(.minutes(1)))
    struct PageReturnTests {
        /// How many bytes of a batch's region are in memory.
        private func resident(_ batch: PacketBatch) throws -> Int {
            let page = PageMapping.pageSize
            var states = [UInt8](repeating: 0, count: batch.byteCapacity / page)
            let code = unsafe mincore(batch.base, batch.byteCapacity, &states)
            try #require(code == 0)
            return page * states.count { $0 & 1 != 0 }
        }

        private func fill(_ batch: PacketBatch) {
            let packet = [UInt8](repeating: 0xa5, count: 1_400)
            while batch.append(copying: packet) != nil {}
        }

        @Test("A batch that was full keeps its working set, and can be filled again")
        func batch() throws {
            let batch = try PacketBatch(packetCapacity: 1_000, byteCapacity: 1 << 20)
            #expect(try resident(batch) == 0)
            fill(batch)
            #expect(try resident(batch) > 900_000)
            #expect(batch.reach == batch.tail)
            batch.releasePages(beyond: 100_000)
            #expect(try resident(batch) <= 102_400)
            #expect(batch.isEmpty && batch.reach == 0)
            fill(batch)
            #expect(batch.copy(of: 700) == [UInt8](repeating: 0xa5, count: 1_400))
            #expect(try resident(batch) > 900_000)
            batch.releasePages(beyond: 2 << 20)
            #expect(try resident(batch) > 900_000, "there is nothing beyond all of it")
        }

        @Test("The reach of a batch is the farthest that it was filled since it was forgotten")
        func reach() throws {
            let batch = try PacketBatch(packetCapacity: 10, byteCapacity: 4_096)
            batch.append(offset: 3_000, length: 10)
            batch.removeAll()
            batch.append(offset: 0, length: 10)
            #expect(batch.reach == 3_010)
            batch.forgetReach()
            #expect(batch.reach == 0 && batch.isEmpty)
            batch.append(offset: 0, length: 20)
            batch.removeAll()
            #expect(batch.reach == 20)
        }

        @Test("A lane that is idle after a burst returns its pages; one with little traffic keeps its own")
        func lane() throws {
            let host = MemoryInternet(queueLimit: 100_000).attach([.v4(1)])
            let sockets = try host.bind(port: 7, mark: 0)
            let device = try ScriptedTun()
            var configuration = LaneConfiguration()
            configuration.pageReturnDelay = .milliseconds(20)
            let lane = try Lane(
                device: device, sockets: sockets,
                transport: FramingTransport(remote: Endpoint.loopback(port: 9)),
                configuration: configuration, onFailure: { _ in })
            defer { lane.stop() }
            try lane.start()
            device.put([pattern(500, seed: 1)])
            #expect(waitUntil(timeout: .seconds(20)) { lane.statistics.fromDevice.packets == 1 })
            #expect(lane.statistics.pageReturns == 0)
            device.put((0..<2_000).map { pattern(1_400, seed: $0) })
            let bound = LaneCore.workingPacketBytes + PageMapping.pageSize
            let isReturned = try waitUntil(timeout: .seconds(20)) {
                try lane.statistics.fromDevice.packets == 2_001 && lane.statistics.pageReturns > 0
                    && resident(lane.core.packets) <= bound && resident(lane.core.outgoing) <= bound
            }
            #expect(isReturned)
        }

        @Test("Idle lanes touch no memory for packets and set no timer")
        func idleLanes() throws {
            let host = MemoryInternet().attach([.v4(1)])
            let count = LaneLayout.mostServerLanes
            let sockets = try host.bind(DatagramBinding(port: 7), count: count)
            let group = try LaneGroup(
                device: MemoryTun(), transport: FramingTransport(remote: Endpoint.loopback(port: 9)),
                layout: .many(lanes: count)
            ) { _ in }
            defer {
                group.stop()
                for sockets in sockets { sockets.close() }
            }
            try group.start()
            // Each lane does this in a round, so it has started.
            group.replaceSockets(sockets)
            for core in group.lanes.map(\.core) {
                #expect(try resident(core.packets) + resident(core.outgoing) + resident(core.incoming) == 0)
                #expect(!core.pageUse.isTimerSet)
            }
        }
    }
#endif
