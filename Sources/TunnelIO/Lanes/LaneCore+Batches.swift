// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

extension LaneCore {
    /// Reads, seals and sends batches until the device has no more or its turn is over.
    /// - Returns: the number of packets.
    func moveFromDevice() throws(TunnelIOError) -> Int {
        var moved = 0
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            packets.removeAll()
            let count = try device.receive(into: packets)
            guard count > 0 else { break }
            moved += count
            counts.fromDevice.packets &+= count
            counts.fromDevice.bytes &+= Self.bytes(of: packets)
            counts.fromDevice.batches &+= 1
            outgoing.removeAll()
            transport.seal(packets, into: outgoing)
            sendOutgoing()
            publish()
            // With room left, there was no more.
            if !device.hasBufferedPackets, packets.count < packets.packetCapacity,
                packets.byteCapacity - packets.tail > LaneConfiguration.largestDatagram
            {
                break
            }
        }
        return moved
    }

    /// Receives, opens and delivers batches until the socket has no more or its turn is over.
    /// - Returns: the number of datagrams.
    /// - Throws: what the socket throws; what the device throws ends the lane.
    func moveFromNetwork(_ socket: any DatagramSocket) throws(TunnelIOError) -> Int {
        var moved = 0
        for _ in 0..<configuration.batchesPerTurn where !loop.isStopped {
            incoming.removeAll()
            let count = try socket.receive(into: incoming)
            guard count > 0 else { break }
            moved += count
            counts.fromNetwork.packets &+= count
            counts.fromNetwork.bytes &+= Self.bytes(of: incoming)
            counts.fromNetwork.batches &+= 1
            transport.open(incoming)
            deliverIncoming()
            publish()
            // What comes joined counts as many.
            if count < configuration.fewDatagrams || moved >= configuration.datagramsPerTurn { break }
        }
        return moved
    }

    /// Sends what is in `outgoing`, each run of one family in one call.
    func sendOutgoing() {
        let count = outgoing.count
        guard count > 0 else { return }
        var start = 0
        while start < count {
            let isIPv6 = outgoing[endpoint: start].isIPv6
            var end = start + 1
            while end < count, outgoing[endpoint: end].isIPv6 == isIPv6 { end += 1 }
            send(start..<end, through: isIPv6 ? v6 : v4)
            start = end
        }
        publish()
    }

    private func send(_ range: Range<Int>, through socket: (any DatagramSocket)?) {
        guard let socket else {
            counts.droppedWithoutSocket &+= datagrams(in: range)
            return
        }
        do throws(TunnelIOError) {
            let result = try socket.send(outgoing, in: range)
            counts.toNetwork.packets &+= result.sent
            counts.toNetwork.bytes &+= result.bytes
            counts.toNetwork.batches &+= 1
            if result.dropped > 0 {
                counts.droppedByNetwork &+= result.dropped
                counts.lastSendError = result.lastError
            }
        } catch {
            counts.droppedByNetwork &+= datagrams(in: range)
            counts.lastSendError = error.errno
        }
    }

    private func deliverIncoming() {
        let bytes = Self.bytes(of: incoming)
        guard bytes > 0 else { return }
        do throws(TunnelIOError) {
            let result = try device.send(incoming)
            counts.toDevice.packets &+= result.sent
            counts.toDevice.bytes &+= bytes
            counts.toDevice.batches &+= 1
            counts.droppedByDevice &+= result.dropped
        } catch {
            fail(error)
        }
    }

    private func datagrams(in range: Range<Int>) -> Int {
        var count = 0
        for index in range where outgoing[index].length > 0 { count += 1 }
        return count
    }

    private static func bytes(of batch: PacketBatch) -> Int {
        var sum = 0
        for index in 0..<batch.count { sum &+= Int(batch[index].length) }
        return sum
    }

    private func publish() {
        let counts = counts
        statistics.withLock { $0 = counts }
    }
}
