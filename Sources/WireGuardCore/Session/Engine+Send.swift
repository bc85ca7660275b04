// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Handles outgoing packets: finds the peer and reserves counters. The plan does the rest.
extension Engine {
    /// Plans the sending of a batch of IP packets. Packets without a session wait until there is one.
    /// - Parameters:
    ///   - packets: One IP packet each.
    ///   - mtu: The interface's MTU in bytes, which bounds padding; zero for no bound.
    ///   - now: The present time of the owner's clock.
    ///   - wall: The wall clock, for the timestamps of handshakes. It is evaluated only if a handshake needs it, and must
    ///     not use the engine.
    ///   - plan: Emptied first; then contains the packets to seal.
    @unsafe
    public mutating func planSend(
        _ packets: UnsafeBufferPointer<PacketView>, mtu: Int, at now: Instant,
        wall: @autoclosure () -> WallTime, into plan: SendPlan
    ) {
        plan.reset(mtu: mtu)
        guard isUp else {
            statistics.whileDown += UInt64(packets.count)
            return
        }
        let now = advance(to: now)
        var runStart = 0
        var runSlot: Int32 = -1
        for index in 0..<packets.count {
            let view = unsafe packets[index]
            guard unsafe view.count > 0 else {
                // An empty view is a packet that was already handled: send and count nothing.
                unsafe finishRun(packets, runStart..<index, runSlot, at: now, wall: wall, plan)
                runSlot = -1
                runStart = index
                continue
            }
            let slot = unsafe allowedIPs.lookupDestination(
                of: UnsafeRawBufferPointer(start: view.base, count: view.count))
            if slot != runSlot {
                unsafe finishRun(packets, runStart..<index, runSlot, at: now, wall: wall, plan)
                runStart = index
                runSlot = slot
            }
            if slot < 0 { statistics.noRoute += 1 }
        }
        unsafe finishRun(packets, runStart..<packets.count, runSlot, at: now, wall: wall, plan)
    }

    private mutating func finishRun(
        _ packets: UnsafeBufferPointer<PacketView>, _ range: Range<Int>, _ slot: Int32, at now: Instant,
        wall: () -> WallTime, _ plan: SendPlan
    ) {
        guard slot >= 0, !range.isEmpty, let peer = peer(at: slot) else { return }
        guard let endpoint = peer.endpoint else {
            statistics.noEndpoint += UInt64(range.count)
            return
        }
        var reserved = 0
        // Waiting packets must be sent first, to keep the order of a flow.
        if !peer.hasStaged, let keypair = peer.current, keypair.isUsable(at: now) {
            let (first, count) = keypair.reserve(range.count)
            reserved = count
            if count > 0 {
                let sent = range.lowerBound..<range.lowerBound + count
                unsafe plan.runs.append(
                    SendPlan.Run(keys: keypair.keys, firstCounter: first, packets: sent, endpoint: endpoint))
                var bytes = count &* Message.minimumDataByteCount
                for index in sent { unsafe bytes &+= Padding.paddedLength(packets[index].count, mtu: plan.mtu) }
                peer.sentBytes &+= UInt64(bytes)
                statistics.packetsSent &+= UInt64(count)
                dataSent(to: peer, at: now)
                authenticatedPacketSent(to: peer)
                authenticatedPacketTraversed(peer, at: now)
                keepFreshSending(keypair, of: peer, at: now, wall: wall)
            }
        }
        if reserved < range.count {
            for index in range.dropFirst(reserved) {
                let view = unsafe packets[index]
                unsafe stage(Array(UnsafeRawBufferPointer(start: view.base, count: view.count)), for: peer)
            }
            flushStaged(of: peer, at: now, wall: wall())
        }
        schedule(peer)
    }
}
