// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization

extension LaneCore {
    /// Reads, seals and sends batches until the device has no more or its turn is over.
    /// - Returns: the number of packets.
    func moveFromDevice(at now: Int64) throws(TunnelIOError) -> Int {
        var moved = 0
        packets.readsOnce = now &- lastFromDevice >= Self.pause
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            packets.removeAll()
            let count = try device.receive(into: packets)
            packets.readsOnce = false
            guard count > 0 else { break }
            moved += count
            lastFromDevice = now
            noteFromDevice(packets, count)
            outgoing.removeAll()
            transport.seal(packets, into: outgoing)
            send(outgoing)
            if !mayHaveMore(packets) { break }
        }
        return moved
    }

    func noteFromDevice(_ batch: PacketBatch, _ count: Int) {
        counts.fromDevice.packets &+= count
        counts.fromDevice.bytes &+= Self.bytes(of: batch)
        counts.fromDevice.batches &+= 1
    }

    /// Whether the device may have more packets: it had no more if this batch has room left.
    func mayHaveMore(_ batch: PacketBatch) -> Bool {
        device.hasBufferedPackets || batch.count == batch.packetCapacity
            || batch.byteCapacity - batch.tail <= LaneConfiguration.largestDatagram
    }

    /// Receives, opens and delivers batches until the socket has no more or its turn is over.
    /// - Returns: the number of datagrams.
    /// - Throws: errors of the socket. An error of the device ends the lane.
    func moveFromNetwork(_ socket: any DatagramSocket) throws(TunnelIOError) -> Int {
        var moved = 0
        let now = LaneClock.now()
        let isAfterPause = now &- lastFromNetwork >= Self.pause
        incoming.readsOnce = isAfterPause
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            incoming.removeAll()
            let count = try socket.receive(into: incoming)
            incoming.readsOnce = false
            guard count > 0 else { break }
            moved += count
            lastFromNetwork = now
            noteFromNetwork(incoming, count)
            transport.open(incoming, answer: answer)
            deliver(incoming)
            // Joined datagrams count one by one.
            if count < configuration.fewDatagrams || moved >= configuration.datagramsPerTurn { break }
        }
        if isAfterPause, moved == 1 { moveReplies(at: now) }
        return moved
    }

    func noteFromNetwork(_ batch: PacketBatch, _ count: Int) {
        counts.fromNetwork.packets &+= count
        counts.fromNetwork.bytes &+= Self.bytes(of: batch)
        counts.fromNetwork.batches &+= 1
    }

    /// The datagrams that the current sockets dropped before they reached a batch; zero if the lane only sends.
    var droppedBySockets: Int {
        guard isReceiving, role.contains(.inbound) else { return 0 }
        var sum = 0
        if let drops = v4?.receiveDrops { sum &+= drops.oversize &+ drops.overflowed }
        if let drops = v6?.receiveDrops { sum &+= drops.oversize &+ drops.overflowed }
        return sum
    }

    /// Sends a batch with one call for each address family, so that each socket waits for a full queue at most once.
    func send(_ batch: PacketBatch) {
        guard !batch.isEmpty else { return }
        var hasV4 = false
        var hasV6 = false
        for index in 0..<batch.count {
            if batch[endpoint: index].isIPv6 { hasV6 = true } else { hasV4 = true }
        }
        if hasV4 { send(batch, isIPv6: false, through: v4) }
        if hasV6 { send(batch, isIPv6: true, through: v6) }
    }

    private func send(_ batch: PacketBatch, isIPv6: Bool, through socket: (any DatagramSocket)?) {
        guard let socket else {
            counts.droppedWithoutSocket &+= datagrams(in: batch, isIPv6: isIPv6)
            return
        }
        do throws(TunnelIOError) {
            let result = try socket.send(batch, in: 0..<batch.count)
            counts.toNetwork.packets &+= result.sent
            counts.toNetwork.bytes &+= result.bytes
            counts.toNetwork.batches &+= 1
            if result.dropped > 0 {
                counts.droppedByNetwork &+= result.dropped
                counts.lastSendError = result.lastError
            }
        } catch {
            counts.droppedByNetwork &+= datagrams(in: batch, isIPv6: isIPv6)
            counts.lastSendError = error.errno
        }
    }

    func deliver(_ batch: PacketBatch) {
        let bytes = Self.bytes(of: batch)
        guard bytes > 0 else { return }
        do throws(TunnelIOError) {
            let result = try device.send(batch)
            counts.toDevice.packets &+= result.sent
            counts.toDevice.bytes &+= bytes
            counts.toDevice.batches &+= 1
            counts.droppedByDevice &+= result.dropped
        } catch {
            fail(error)
        }
    }

    private func datagrams(in batch: PacketBatch, isIPv6: Bool) -> Int {
        var count = 0
        for index in 0..<batch.count where batch[index].length > 0 && batch[endpoint: index].isIPv6 == isIPv6 {
            count += 1
        }
        return count
    }

    static func bytes(of batch: PacketBatch) -> Int {
        var sum = 0
        for index in 0..<batch.count { sum &+= Int(batch[index].length) }
        return sum
    }

    /// Publishes the counts, once in each round, so that no packet waits for it.
    func publish() {
        // Lanes of one direction share the device and the sockets. Each count is that of one of them.
        if role.contains(.outbound) { counts.malformedFromDevice = device.statistics.malformedFrames }
        counts.droppedBySocket = droppedByFormerSockets &+ droppedBySockets
        let counts = counts
        statistics.withLock { $0 = counts }
    }
}
