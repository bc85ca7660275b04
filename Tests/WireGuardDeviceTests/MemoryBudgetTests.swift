// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import TunnelIO
@testable import WireGuardDevice

@Suite("Memory budget")
struct MemoryBudgetTests {
    @Test(
        "The parts never exceed the whole, and a budget that is too small says what would be enough",
        arguments: [0, 1 << 20, 3 << 20, 4 << 20, 6 << 20, 8 << 20, 16 << 20, 24 << 20, 100 << 20, 1 << 30],
        [-1, 0, 1, 2, 50, 240, 512, 5_000, 1 << 20, .max])
    func sweep(_ bytes: Int, _ peers: Int) throws {
        for lanes in [1, 2, 4, 1_000] {
            do throws(MemoryBudgetError) {
                let budget = try MemoryBudget.custom(bytes: bytes, peers: peers, lanes: lanes)
                check(budget)
                #expect(budget.byteCount == bytes && budget.lanes <= lanes)
            } catch .tooSmall(let byteCount, let needed, let count) {
                #expect(byteCount == bytes && needed > bytes)
                #expect(
                    "\(MemoryBudgetError.tooSmall(byteCount: bytes, needed: needed, peers: count))".contains(
                        "\(needed)"))
                let enough = try MemoryBudget.custom(bytes: needed, peers: peers, lanes: lanes)
                check(enough)
                #expect(enough.lanes == 1)
                #expect(throws: MemoryBudgetError.self) {
                    try MemoryBudget.custom(bytes: needed - 1, peers: peers, lanes: lanes)
                }
            }
        }
    }

    private func check(_ budget: MemoryBudget) {
        let parts = budget.breakdown
        #expect(parts.total <= budget.byteCount)
        // The lanes' share is what lanes made from it take.
        let lane = budget.lane
        #expect(lane == lane.workable)
        let regions = budget.lanes * (lane.packetRegionBytes + lane.outgoingRegionBytes + lane.incomingRegionBytes)
        #expect(parts.packets + parts.outgoing + parts.incoming == regions)
        #expect(parts.scratch >= budget.lanes * LaneConfiguration.systemBytes)
        // Joined datagrams stay possible.
        #expect(lane.datagramCount >= 64)
        let limits = budget.limits
        #expect(limits.stagedBytes >= 1 << 15 && limits.stagedPackets >= 128)
        #expect(limits.stagedBytes + limits.stagedPackets * MemoryCost.stagedPacket <= parts.staged)
        #expect(limits.outboxMessages > 0 && limits.rateLimitedSources > 0)
        #expect(limits.peers == budget.peers && limits.allowedIPs == budget.allowedIPs)
    }

    @Test("The predefined budgets have the documented sizes")
    func readyMade() {
        #expect(MemoryBudget.extension.byteCount == 8 << 20)
        #expect(MemoryBudget.extension.peers == 240)
        #expect(MemoryBudget.client.byteCount == 24 << 20)
        for budget in [MemoryBudget.extension, .client] { check(budget) }
        for peers in [1, 1_000, 100_000] {
            let gateway = MemoryBudget.gateway(peers: peers, lanes: 4)
            check(gateway)
            #expect(gateway.peers == peers && gateway.lanes == 4)
            var lane = gateway.lane
            #expect(lane.socketQueueBytes == 4 << 20)
            lane.socketQueueBytes = nil
            #expect(lane == LaneConfiguration())
            #expect(gateway.byteCount <= (120 << 20) + peers * (20 << 10))
        }
        check(.gateway(peers: .max, lanes: .max))
    }

    @Test(
        "A list of thousands of networks fits the predefined budgets, which then have the documented size and are otherwise unchanged"
    )
    func manyAllowedIPs() {
        for (budget, count, mebibytes) in [(MemoryBudget.extension, 4_096, 12), (.client, 20_000, 42)] {
            #expect(budget.withRoom(forAllowedIPs: 10) == budget)
            let larger = budget.withRoom(forAllowedIPs: count)
            check(larger)
            #expect(larger.allowedIPs == count && larger.peers == budget.peers)
            #expect(larger.lane.packetRegionBytes == budget.lane.packetRegionBytes)
            #expect(larger.lane.datagramCount == budget.lane.datagramCount)
            #expect(larger.limits.stagedBytes == budget.limits.stagedBytes)
            #expect(larger.byteCount <= mebibytes << 20)
            print("\(count) allowed IPs: \(larger.byteCount) bytes, with \(budget.allowedIPs) \(budget.byteCount)")
            #expect(budget.withRoom(forAllowedIPs: count + 1) == larger, "what is more is refused")
        }
        let gateway = MemoryBudget.gateway(peers: 10)
        #expect(gateway.withRoom(forAllowedIPs: 1_000) == gateway)
    }

    @Test("A region takes no more than the budget counts for it")
    func regions() throws {
        let lane = MemoryBudget.extension.lane
        for (bytes, count, share) in [
            (lane.packetBytes, lane.packetCount, lane.packetRegionBytes),
            (lane.outgoingBytes, lane.packetCount, lane.outgoingRegionBytes),
            (lane.incomingBytes, lane.datagramCount, lane.incomingRegionBytes),
        ] {
            let batch = try PacketBatch(packetCapacity: count, byteCapacity: bytes)
            #expect(batch.byteCapacity + count * 56 <= share)
        }
    }

    @Test("Options of the data path replace the layout, and the budget's lane if they have one")
    func dataPath() {
        let layout = WireGuardDevice.Options(budget: .client, dataPath: DataPathOptions(layout: .single))
        #expect(layout.layout == .single && layout.lane == MemoryBudget.client.lane)
        let lane = LaneConfiguration(packetCount: 3)
        let options = WireGuardDevice.Options(budget: .client, dataPath: DataPathOptions(lane: lane))
        #expect(options.lane == lane && options.layout == .automatic && options.limits == MemoryBudget.client.limits)
        #expect(WireGuardDevice.Options().lane == LaneConfiguration())
    }

    @Test("Options take limits and batch sizes from the budget, and both can be set")
    func options() {
        var options = WireGuardDevice.Options(budget: .extension)
        #expect(options.limits == MemoryBudget.extension.limits && options.lane == MemoryBudget.extension.lane)
        options.limits.peers = 3
        #expect(options.limits.peers == 3 && options.budget == .extension)
        #expect(WireGuardDevice.Options().limits == EngineLimits())
    }

    @Test("The budget limits the lanes of a device, which logs it once", arguments: [1, 2])
    func lanes(_ lanes: Int) throws {
        let lines = Mutex<[String]>([])
        var options = WireGuardDevice.Options(
            budget: .gateway(peers: 10, lanes: lanes), dataPath: DataPathOptions(layout: .many(lanes: 16)))
        options.log = { level, text in if level == .error { lines.withLock { $0.append(text) } } }
        let device = try WireGuardDevice(
            tun: MemoryTun(), network: MemoryInternet().attach([.v4(1)]), options: options)
        defer { device.close() }
        #expect(device.layout == (lanes == 1 ? LaneLayout.automatic.resolved() : .many(lanes: lanes)))
        #expect(
            lines.withLock { $0 } == ["using \(lanes) instead of 16 lanes: the memory budget has no room for more"])
    }

    @Test("A busy lane without a budget uses at most 6 MiB")
    func laneMemory() {
        #expect(MemoryCost.lane(LaneConfiguration()) <= 6 << 20)
    }

    // MARK: Refusing

    private func device(peers: Int, allowedIPs: Int) throws -> WireGuardDevice {
        let budget = try MemoryBudget.custom(bytes: 8 << 20, peers: peers, allowedIPs: allowedIPs)
        return try WireGuardDevice(
            tun: MemoryTun(), network: MemoryInternet().attach([.v4(1)]),
            options: WireGuardDevice.Options(budget: budget))
    }

    private func update(peers count: Int, seed: UInt64, networks: Int = 0) -> UAPIDeviceUpdate {
        var random = SeededGenerator(seed: seed)
        var update = UAPIDeviceUpdate()
        update.peers = (0..<count).map { number in
            var peer = UAPIPeerUpdate(publicKey: PrivateKey(using: &random).publicKey)
            peer.allowedIPs = (0..<networks).compactMap { network in
                IPPrefix(.v4(UInt32(number << 16 | network)), length: 32).map { .add($0) }
            }
            return peer
        }
        return update
    }

    @Test("One peer beyond the budget is refused with the reason, and no part of the update is applied")
    func tooManyPeers() throws {
        let device = try device(peers: 5, allowedIPs: 10)
        defer { device.close() }
        try device.apply(update(peers: 5, seed: 1))
        var more = update(peers: 1, seed: 2)
        more.fwMark = 9
        let error = #expect(throws: WireGuardDeviceError.self) { try device.apply(more) }
        #expect(error?.code == .beyondBudget(.tooManyPeers(count: 6, limit: 5)))
        #expect(error?.description.contains("6 peers are more than the 5") == true)
        #expect(device.peers.count == 5 && device.uapiState.fwMark == 0)
        // An update that removes as much as it adds fits.
        more.replacePeers = true
        try device.apply(more)
        #expect(device.peers.count == 1)
        try device.apply(update(peers: 4, seed: 3))
        #expect(device.peers.count == 5)
    }

    @Test("One allowed IP too many is refused the same way")
    func tooManyAllowedIPs() throws {
        let device = try device(peers: 5, allowedIPs: 10)
        defer { device.close() }
        try device.apply(update(peers: 2, seed: 1, networks: 5))
        let error = #expect(throws: WireGuardDeviceError.self) {
            try device.apply(update(peers: 3, seed: 1, networks: 5))
        }
        #expect(error?.code == .beyondBudget(.tooManyAllowedIPs(count: 11, limit: 10)))
        #expect(device.peers.count == 2)
        // The same once more brings nothing new.
        try device.apply(update(peers: 2, seed: 1, networks: 5))
        #expect(device.peers.map(\.allowedIPs.count) == [5, 5])
    }

    @Test("Over the management socket both are ENOMEM, even if the request alone is too large")
    func managementSocket() throws {
        let device = try device(peers: 2, allowedIPs: 3)
        defer { device.close() }
        func answer(_ update: UAPIDeviceUpdate) -> Int32? {
            var session = device.makeUAPISession()
            var request: [UInt8] = []
            update.appendRequest(to: &request)
            var output: [UInt8] = []
            _ = unsafe request.withUnsafeBytes { unsafe session.receive($0, replyingInto: &output) }
            return UAPIReply.errno(in: output)
        }
        #expect(answer(update(peers: 2, seed: 1, networks: 1)) == 0)
        #expect(answer(update(peers: 3, seed: 1, networks: 1)) == UAPIErrno.outOfMemory.number)
        #expect(answer(update(peers: 2, seed: 1, networks: 2)) == UAPIErrno.outOfMemory.number)
        #expect(answer(update(peers: 100, seed: 1)) == UAPIErrno.outOfMemory.number)
        #expect(answer(update(peers: 1, seed: 1, networks: 100)) == UAPIErrno.outOfMemory.number)
        #expect(device.peers.map(\.allowedIPs.count) == [1, 1])
        #expect(answer(UAPIDeviceUpdate()) == 0)
    }

    @Test("Budgets have names")
    func text() throws {
        #expect(try MemoryBudget(text: "extension", lanes: 1) == .extension)
        #expect(try MemoryBudget(text: "client", lanes: 1) == .client)
        #expect(try MemoryBudget(text: "gateway:5000", lanes: 2) == .gateway(peers: 5000, lanes: 2))
        #expect(try MemoryBudget(text: "64:2000", lanes: 1) == .custom(bytes: 64 << 20, peers: 2000))
    }

    @Test(
        "An invalid budget is refused with valid forms",
        arguments: ["x", "8", "8:", ":8", "0:1", "8:0", "-1:2", "gateway:", "gateway:99999999", "1:2:3", "8 :2"])
    func badText(_ text: String) {
        let error = #expect(throws: MemoryBudgetTextError.self) { try MemoryBudget(text: text, lanes: 1) }
        #expect(error == .unreadable(text))
        #expect(error?.description.contains("gateway:PEERS") == true)
    }

    @Test("A budget that is too small for its peers is refused with the required size")
    func tooSmallText() {
        let error = #expect(throws: MemoryBudgetTextError.self) { try MemoryBudget(text: "1:100000", lanes: 1) }
        #expect(error?.description.contains("100") == true)
    }
}
