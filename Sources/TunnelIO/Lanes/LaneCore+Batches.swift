// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization

extension LaneCore {
    /// Reads, seals and sends batches until the device has no more or its turn is over.
    /// - Returns: the number of packets.
    func moveFromDevice(at now: Int64) throws(TunnelIOError) -> Int {
        var moved = 0
        var now = now
        packets.readsOnce = now &- lastFromDevice >= Self.pause
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            packets.removeAll()
            let count = try device.receive(into: packets)
            packets.readsOnce = false
            guard count > 0 else { break }
            moved += count
            lastFromDevice = now
            outgoing.removeAll()
            let hasDatagrams = transport.seal(packets, into: outgoing, at: now)
            send(outgoing)
            noteFromDevice(packets, count)
            if hasDatagrams { answer() }
            if !mayHaveMore(packets) { break }
            now = LaneClock.now()
        }
        return moved
    }

    func noteFromDevice(_ batch: PacketBatch, _ count: Int) {
        counts.fromDevice.packets.add(count)
        counts.fromDevice.bytes.add(Self.bytes(of: batch))
        counts.fromDevice.batches.add(1)
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
        var now = LaneClock.now()
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
            let hasDatagrams = transport.open(incoming, at: now, answer: answer)
            deliver(incoming)
            if hasDatagrams { answer() }
            // Joined datagrams count one by one.
            if count < configuration.fewDatagrams || moved >= configuration.datagramsPerTurn { break }
            now = LaneClock.now()
        }
        if isAfterPause, moved == 1 { moveReplies(at: now) }
        return moved
    }

    func noteFromNetwork(_ batch: PacketBatch, _ count: Int) {
        counts.fromNetwork.packets.add(count)
        counts.fromNetwork.bytes.add(Self.bytes(of: batch))
        counts.fromNetwork.batches.add(1)
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
            counts.droppedWithoutSocket.add(datagrams(in: batch, isIPv6: isIPv6))
            return
        }
        do throws(TunnelIOError) {
            let result = try socket.send(batch, in: 0..<batch.count)
            counts.toNetwork.packets.add(result.sent)
            counts.toNetwork.bytes.add(result.bytes)
            counts.toNetwork.batches.add(1)
            if result.dropped > 0 {
                counts.droppedByNetwork.add(result.dropped)
                counts.lastSendError.set(Int(result.lastError))
            }
        } catch {
            counts.droppedByNetwork.add(datagrams(in: batch, isIPv6: isIPv6))
            counts.lastSendError.set(Int(error.errno))
        }
    }

    func deliver(_ batch: PacketBatch) {
        let bytes = Self.bytes(of: batch)
        guard bytes > 0 else { return }
        do throws(TunnelIOError) {
            let result = try device.send(batch)
            counts.toDevice.packets.add(result.sent)
            counts.toDevice.bytes.add(bytes)
            counts.toDevice.batches.add(1)
            counts.droppedByDevice.add(result.dropped)
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
}
