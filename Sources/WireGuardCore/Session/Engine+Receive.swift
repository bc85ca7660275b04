// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Handles incoming datagrams: finds the session, lets the plan open them, and commits the authentic ones.
extension Engine {
    /// Plans the opening of a batch of datagrams. Handshake messages are handled immediately.
    /// - Parameters:
    ///   - datagrams: At most as many as the plan has capacity for; the rest is ignored.
    ///   - endpoints: Returns the source of a datagram; called once per handshake message.
    ///   - now: The present time of the owner's clock.
    ///   - wall: The wall clock. It is evaluated only for handshakes, and must not use the engine.
    ///   - plan: Emptied first; then contains the datagrams to open.
    @unsafe
    public mutating func planOpen(
        _ datagrams: UnsafeBufferPointer<PacketView>, endpoints: (Int) -> Endpoint, at now: Instant,
        wall: @autoclosure () -> WallTime, into plan: ReceivePlan
    ) {
        var position = 0
        repeat {
            position = unsafe planOpen(
                datagrams, from: position, endpoints: endpoints, at: now, wall: wall(), into: plan)
        } while position < datagrams.count
    }

    /// Like ``planOpen(_:endpoints:at:wall:into:)``, but stops after the work of
    /// ``TimerConstants/handshakeWorkPerPiece``. An owner that shares the engine releases it between the calls, and
    /// sends the answers.
    /// - Parameter start: 0 at first; then the result of the previous call.
    /// - Returns: The position after the last handled datagram; at least their number if all are handled.
    @unsafe
    package mutating func planOpen(
        _ datagrams: UnsafeBufferPointer<PacketView>, from start: Int, endpoints: (Int) -> Endpoint, at now: Instant,
        wall: @autoclosure () -> WallTime, into plan: ReceivePlan
    ) -> Int {
        let count = min(datagrams.count, plan.capacity)
        if start == 0 { plan.reset(count: count) }
        let now = advance(to: now)
        if start > 0 { load.messages(plan.piece.handshakes, took: now.nanoseconds &- plan.piece.begun.nanoseconds) }
        var position = start
        var work = 0
        while position < count {
            let view = unsafe datagrams[position]
            guard isUp, unsafe view.count > 0 else {
                if !isUp { statistics.whileDown += 1 }
                unsafe plan.lengths[position] = ReceivePlan.skipped
                position += 1
                continue
            }
            guard let kind = unsafe MessageKind.classify(view.base, byteCount: view.count) else {
                statistics.malformedDatagrams += 1
                unsafe plan.lengths[position] = ReceivePlan.skipped
                position += 1
                continue
            }
            guard kind == .data else {
                unsafe plan.lengths[position] = ReceivePlan.skipped
                unsafe work += receiveHandshake(
                    kind, UnsafeRawBufferPointer(start: view.base, count: view.count), from: endpoints(position),
                    at: now, wall: wall())
                position += 1
                guard work >= TimerConstants.handshakeWorkPerPiece, position < count else { continue }
                plan.piece = (now, work / TimerConstants.handshakeWork)
                return position
            }
            position = unsafe planRun(at: position, of: count, datagrams, at: now, into: plan)
        }
        return max(position, datagrams.count)
    }

    /// Plans transport data for one session: the datagram at `start`, and those directly after it with the same
    /// receiver index.
    /// - Returns: The position after these datagrams.
    @inline(__always)
    private mutating func planRun(
        at start: Int, of count: Int, _ datagrams: UnsafeBufferPointer<PacketView>, at now: Instant,
        into plan: ReceivePlan
    ) -> Int {
        let index = unsafe UnsafeRawPointer(datagrams[start].base).loadLittleEndian32(at: Message.Data.receiver)
        let keypair = usableKeypair(index, at: now)
        var position = start
        var replayed = 0
        repeat {
            let base = unsafe UnsafeRawPointer(datagrams[position].base)
            if let keypair {
                // This is cheap compared with decryption, and avoids it for replayed datagrams.
                let isNew = unsafe keypair.replay.mayAccept(base.loadLittleEndian64(at: Message.Data.counter))
                unsafe plan.lengths[position] = isNew ? 0 : ReceivePlan.skipped
                if !isNew { replayed &+= 1 }
            } else {
                unsafe plan.lengths[position] = ReceivePlan.skipped
            }
            position &+= 1
        } while unsafe position < count && isData(datagrams[position], for: index)
        if let keypair {
            statistics.replayed += UInt64(replayed)
            unsafe plan.runs.append(ReceivePlan.Run(keypair: keypair, keys: keypair.keys, datagrams: start..<position))
        } else {
            statistics.unknownSession += UInt64(position - start)
        }
        return position
    }

    @inline(__always)
    private func isData(_ datagram: PacketView, for index: UInt32) -> Bool {
        unsafe MessageKind.classify(datagram.base, byteCount: datagram.count) == .data
            && UnsafeRawPointer(datagram.base).loadLittleEndian32(at: Message.Data.receiver) == index
    }

    private func usableKeypair(_ index: UInt32, at now: Instant) -> Keypair? {
        guard let slot = indices[index], let keypair = peer(at: slot)?.keypair(withLocalIndex: index),
            keypair.isUsable(at: now)
        else { return nil }
        return keypair
    }

    /// Commits an opened plan: replay window, source check, timers, statistics, roaming.
    ///
    /// Afterwards the plan contains the packets to deliver.
    /// - Parameters:
    ///   - plan: The plan that ``planOpen(_:endpoints:at:wall:into:)`` filled and ``ReceivePlan/open(_:)`` opened.
    ///   - datagrams: The views of the plan.
    ///   - endpoints: Returns the source of a datagram; called once per run of a session.
    ///   - now: The present time of the owner's clock.
    ///   - wall: The wall clock. It is evaluated only for handshakes, and must not use the engine.
    @unsafe
    public mutating func commit(
        _ plan: ReceivePlan, _ datagrams: UnsafeBufferPointer<PacketView>, endpoints: (Int) -> Endpoint,
        at now: Instant, wall: @autoclosure () -> WallTime
    ) {
        let now = advance(to: now)
        for run in unsafe plan.runs.indices {
            unsafe commit(
                plan.runs[run].keypair, plan.runs[run].datagrams, plan, datagrams, endpoints: endpoints, at: now,
                wall: wall)
        }
        unsafe plan.runs.popAll()
    }

    private mutating func commit(
        _ keypair: Keypair, _ positions: Range<Int>, _ plan: ReceivePlan,
        _ datagrams: UnsafeBufferPointer<PacketView>, endpoints: (Int) -> Endpoint, at now: Instant,
        wall: () -> WallTime
    ) {
        // The session may have been removed while the lock was not held.
        let peer = peer(at: keypair.peer)
        var newest = -1
        var bytes = 0
        var hasData = false
        var delivered = 0
        for position in positions {
            let length = unsafe plan.lengths[position]
            guard length != ReceivePlan.skipped else { continue }
            unsafe plan.lengths[position] = ReceivePlan.skipped
            guard length != ReceivePlan.failed else {
                statistics.authenticationFailures += 1
                continue
            }
            guard let peer else {
                statistics.unknownSession += 1
                continue
            }
            let view = unsafe datagrams[position]
            let counter = unsafe UnsafeRawPointer(view.base).loadLittleEndian64(at: Message.Data.counter)
            guard keypair.replay.accept(counter) else {
                statistics.replayed += 1
                continue
            }
            newest = position
            unsafe bytes &+= view.count
            guard length > 0 else {
                statistics.keepalivesReceived += 1
                continue
            }
            hasData = true
            let inside = unsafe UnsafeRawBufferPointer(
                start: view.base + Message.dataHeaderByteCount, count: Int(length))
            guard let total = unsafe IPHeader.totalLength(of: inside) else {
                statistics.malformedPackets += 1
                continue
            }
            guard unsafe allowedIPs.lookupSource(of: inside) == peer.slot else {
                statistics.disallowedSource += 1
                continue
            }
            unsafe plan.lengths[position] = ReceivePlan.Length(truncatingIfNeeded: total)
            delivered &+= 1
        }
        guard newest >= 0, let peer else { return }
        if keypair === peer.next {
            promoteNext(of: peer)
            // Our own handshake in progress is obsolete, and a delayed response must not revive it.
            endHandshake(of: peer)
            handshakeCompleted(with: peer, wall: wall())
            statistics.handshakesCompleted += 1
            flushStaged(of: peer, at: now, wall: wall())
        } else if keypair === peer.previous {
            settleCrossedSessions(of: peer)
        }
        roam(peer, to: endpoints(newest))
        peer.receivedBytes &+= UInt64(bytes)
        statistics.packetsReceived &+= UInt64(delivered)
        authenticatedPacketReceived(from: peer)
        authenticatedPacketTraversed(peer, at: now)
        if hasData { dataReceived(from: peer, at: now) }
        keepFreshReceiving(peer, at: now, wall: wall)
        schedule(peer)
    }
}
