// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

/// One session: its keys, which any thread may use, and the counters that one state machine alone touches.
package final class TunnelSession {
    /// The keys of both directions.
    package let keys: SessionKeys
    let createdAt: Instant
    /// The client in the server's table.
    let slot: Int32
    /// The counter of the next packet to be sent.
    package private(set) var sendCounter: UInt64 = 0
    private var replay = ReplayWindow()
    /// How many packets were received.
    private(set) var receivedCount: UInt64 = 0
    private var chain: Bytes32

    /// The client's end or, with a slot, the server's.
    init(
        _ keys: borrowing NoiseNK.Keys, isClient: Bool, local: UInt32, remote: UInt32, createdAt: Instant,
        slot: Int32 = -1
    ) {
        self.keys = SessionKeys(
            sendKey: isClient ? keys.toServer : keys.toClient, receiveKey: isClient ? keys.toClient : keys.toServer,
            localIndex: local, remoteIndex: remote)
        chain = keys.chain
        self.createdAt = createdAt
        self.slot = slot
    }

    deinit { chain.wipe() }

    /// The key that a rekey inside this session mixes in, which the caller wipes.
    func rekeyKey(_ shared: SharedKeys) -> Bytes32 { shared.rekeyKey(chain: chain) }

    /// Whether packets may still be sent and received under these keys.
    func isUsable(at now: Instant) -> Bool {
        now.nanoseconds &- createdAt.nanoseconds < TimerConstants.rejectAfterTime
    }

    /// Takes up to `wanted` counters in one step; fewer, or none, where the key's packets run out.
    package func reserve(_ wanted: Int) -> (first: UInt64, count: Int) {
        let first = sendCounter
        guard first < ReplayWindow.rejectAfterMessages else { return (first, 0) }
        let count = min(UInt64(max(wanted, 0)), ReplayWindow.rejectAfterMessages - first)
        sendCounter = first + count
        return (first, Int(count))
    }

    /// Whether a packet is new, as far as is known: the cheap check before it is opened.
    @inline(__always)
    func mayAccept(_ counter: UInt64) -> Bool { replay.mayAccept(counter) }

    /// Marks a packet as received, once it was opened; false when it was before.
    func accept(_ counter: UInt64) -> Bool {
        guard replay.accept(counter) else { return false }
        receivedCount &+= 1
        return true
    }

    /// A separate datagram, or `nil` if the key's counters are exhausted.
    func seal(_ code: PacketCode, _ body: [UInt8] = []) -> [UInt8]? {
        let (counter, count) = reserve(1)
        guard count == 1 else { return nil }
        return MessageEncoder.seal(Header(code: code, index: keys.remoteIndex, counter: counter), body, keys: keys)
    }
}

extension TunnelSession: CustomReflectable {
    package var customMirror: Mirror { Mirror(self, children: []) }
}
