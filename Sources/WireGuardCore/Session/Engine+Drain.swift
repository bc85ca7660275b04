// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The messages that the engine itself sends: handshakes, cookie replies, keepalives, and packets that waited for a
/// session.
extension Engine {
    /// Whether ``drain(into:maximumMessages:maximumBytes:mtu:at:wall:)`` would return anything.
    public var hasPending: Bool { !outbox.isEmpty || !drainQueue.isEmpty }

    /// Moves the waiting items into `plan`: finished messages, and packets with their reserved counters.
    ///
    /// The plan is emptied first. It then gets at most `maximumMessages` messages and at most `maximumBytes` bytes,
    /// unless a single message is larger. The rest waits for the next call.
    public mutating func drain(
        into plan: DrainPlan, maximumMessages: Int, maximumBytes: Int, mtu: Int, at now: Instant, wall: WallTime
    ) {
        plan.reset(mtu: mtu)
        let now = advance(to: now)
        var bytes = 0
        while plan.count < maximumMessages, let size = outbox.firstByteCount,
            bytes + size <= maximumBytes || plan.count == 0, let entry = outbox.popFirst()
        {
            bytes += size
            plan.messages.append(entry)
        }
        var served = 0
        while plan.count < maximumMessages, bytes < maximumBytes, served < drainQueue.count {
            guard let peer = peer(at: drainQueue[served]), peer.isQueuedForDrain else {
                served += 1
                continue
            }
            guard let keypair = peer.current, keypair.isUsable(at: now), let endpoint = peer.endpoint else {
                // The session ended while the packets waited.
                peer.isQueuedForDrain = false
                served += 1
                flushStaged(of: peer, at: now, wall: wall)
                continue
            }
            dropRerouted(of: peer)
            var taken = 0
            var hasData = false
            let room = maximumMessages - plan.count
            let start = bytes
            while taken < min(peer.staged.count, room) {
                let size = SendPlan.maximumDatagramByteCount(forPacket: peer.staged[taken].count)
                guard bytes + size <= maximumBytes || (plan.count == 0 && taken == 0) else { break }
                bytes += size
                taken += 1
            }
            let (first, count) = keypair.reserve(taken)
            for offset in 0..<count {
                let packet = peer.staged[offset]
                unstage(packet)
                hasData = hasData || !packet.isEmpty
                peer.sentBytes +=
                    UInt64(Message.minimumDataByteCount + Padding.paddedLength(packet.count, mtu: mtu))
                plan.packets.append(
                    DrainPlan.Packet(
                        bytes: packet, keys: keypair.keys, counter: first + UInt64(offset), endpoint: endpoint))
            }
            peer.staged.removeFirst(count)
            statistics.packetsSent += UInt64(count)
            if count > 0 {
                if hasData { dataSent(to: peer, at: now) }
                authenticatedPacketSent(to: peer)
                authenticatedPacketTraversed(peer, at: now)
                keepFreshSending(keypair, of: peer, at: now, wall: { wall })
            }
            if peer.staged.isEmpty || count < taken {
                if peer.staged.isEmpty { peer.staged = [] }
                peer.isQueuedForDrain = false
                served += 1
                flushStaged(of: peer, at: now, wall: wall)
            }
            schedule(peer)
            if bytes == start, count == 0, !peer.staged.isEmpty, peer.isQueuedForDrain { break }
        }
        drainQueue.removeFirst(served)
    }
}

/// The engine's own messages: complete ones, and packets that ``write(into:capacity:emit:)`` seals. Sealing needs only
/// the plan and may run on any thread.
public final class DrainPlan {
    struct Packet {
        let bytes: [UInt8]
        let keys: SessionKeys
        let counter: UInt64
        let endpoint: Endpoint
    }

    var messages: [Outbox.Entry] = []
    var packets: [Packet] = []
    var mtu = 0
    private var scratch: [UInt8] = []

    /// An empty plan.
    public init() {}

    /// The number of datagrams.
    public var count: Int { messages.count + packets.count }

    /// Whether the plan has packets that waited for a session, in addition to complete messages.
    public var hasPackets: Bool { !packets.isEmpty }

    func reset(mtu: Int) {
        clear()
        self.mtu = mtu
    }

    /// Releases messages, packets and keys.
    public func clear() {
        messages.removeAll(keepingCapacity: true)
        packets.removeAll(keepingCapacity: true)
    }

    /// Writes the datagrams consecutively from `out` on, and seals packets.
    /// - Parameters:
    ///   - out: The output buffer.
    ///   - capacity: Its size in bytes; datagrams that do not fit are dropped.
    ///   - emit: Called for each datagram with its offset from `out`, its length and its destination.
    @unsafe
    public func write(
        into out: UnsafeMutableRawPointer, capacity: Int,
        emit: (_ offset: Int, _ byteCount: Int, _ endpoint: Endpoint) -> Void
    ) {
        var offset = 0
        for message in messages {
            guard message.bytes.count <= capacity - offset else { return }
            unsafe message.bytes.withUnsafeBytes { raw in
                unsafe UnsafeMutableRawBufferPointer(start: out + offset, count: raw.count).copyMemory(from: raw)
            }
            emit(offset, message.bytes.count, message.endpoint)
            offset += message.bytes.count
        }
        for packet in packets {
            let padded = Padding.paddedLength(packet.bytes.count, mtu: mtu)
            let byteCount = Message.minimumDataByteCount + padded
            guard byteCount <= capacity - offset else { return }
            scratch.removeAll(keepingCapacity: true)
            scratch.append(contentsOf: packet.bytes)
            scratch.append(contentsOf: repeatElement(0, count: 16))
            unsafe scratch.withUnsafeMutableBytes { raw in
                guard let base = raw.baseAddress else { return }
                unsafe sealPacket(
                    base, byteCount: packet.bytes.count, paddedTo: padded, packet.keys.sealing,
                    packet.keys.remoteIndex, packet.counter, into: out + offset)
            }
            emit(offset, byteCount, packet.endpoint)
            offset += byteCount
        }
    }
}
