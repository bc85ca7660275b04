// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

/// A session. Any thread may use its keys; only one state machine may use its counters.
package final class TunnelSession {
    /// The keys of both directions.
    package let keys: SessionKeys
    let createdAt: Instant
    /// The client in the server's table.
    let slot: Int32
    /// The counter of the next packet to send.
    package private(set) var sendCounter: UInt64 = 0
    private var replay = ReplayWindow()
    /// The number of received packets.
    private(set) var receivedCount: UInt64 = 0
    private var chain: Bytes32

    /// Creates the client's end or, with a slot, the server's.
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

    /// Returns the key that a rekey in this session mixes in. The caller wipes it.
    func rekeyKey(_ shared: SharedKeys) -> Bytes32 { shared.rekeyKey(chain: chain) }

    /// Returns a key that only the owners of the session can derive. The caller wipes it.
    func derive(_ label: UnsafeRawBufferPointer) -> Bytes32 { unsafe KDF.derive1(key: chain, input: label) }

    /// Returns a value that proves, in this session only, that its sender knows `secret`.
    func proof(under secret: Bytes32) -> Bytes32 { KDF.derive1(key: secret, input: chain) }

    /// Whether packets may still be sent and received under these keys.
    func isUsable(at now: Instant) -> Bool {
        now.nanoseconds &- createdAt.nanoseconds < TimerConstants.rejectAfterTime
    }

    /// Reserves up to `wanted` consecutive counters; fewer, or none, if the key's counters are exhausted.
    package func reserve(_ wanted: Int) -> (first: UInt64, count: Int) {
        let first = sendCounter
        guard first < ReplayWindow.rejectAfterMessages else { return (first, 0) }
        let count = min(UInt64(max(wanted, 0)), ReplayWindow.rejectAfterMessages - first)
        sendCounter = first + count
        return (first, Int(count))
    }

    /// Whether a packet with this counter may be new. This cheap check avoids opening replayed packets.
    @inline(__always)
    func mayAccept(_ counter: UInt64) -> Bool { replay.mayAccept(counter) }

    /// Marks an opened packet as received. Returns `false` if it was received before.
    func accept(_ counter: UInt64) -> Bool {
        guard replay.accept(counter) else { return false }
        receivedCount &+= 1
        return true
    }

    /// Returns a sealed datagram, or `nil` if the key's counters are exhausted.
    func seal(_ code: PacketCode, _ body: [UInt8] = []) -> [UInt8]? {
        let (counter, count) = reserve(1)
        guard count == 1 else { return nil }
        return MessageEncoder.seal(Header(code: code, index: keys.remoteIndex, counter: counter), body, keys: keys)
    }
}

extension TunnelSession: CustomReflectable {
    package var customMirror: Mirror { Mirror(self, children: []) }
}
