// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The state of a batch of outgoing packets: the packets to send, their keys and counters, and their destinations.
///
/// The engine fills a plan. ``seal(_:into:capacity:emit:)`` then needs only the plan and may run on any thread. A plan
/// is reused for each batch, and allocates no memory once it has reached its size.
public final class SendPlan {
    struct Run {
        let keys: SessionKeys
        let firstCounter: UInt64
        /// Indices into the batch.
        let packets: Range<Int>
        let endpoint: Endpoint
    }

    /// Accesses are not checked at run time: one thread uses a plan at a time, and no access contains another.
    @exclusivity(unchecked) var runs: ContiguousArray<Run> = []
    var mtu = 0

    /// An empty plan.
    public init() {
        unsafe runs.reserveCapacity(64)
    }

    /// Whether nothing is sent.
    public var isEmpty: Bool { unsafe runs.isEmpty }

    /// The maximum number of bytes that sealing temporarily writes after a packet.
    public static let mostPadding = 15

    /// Returns the maximum size of the datagram for a packet of `count` bytes.
    public static func maximumDatagramByteCount(forPacket count: Int) -> Int {
        count + mostPadding + Message.minimumDataByteCount
    }

    func reset(mtu: Int) {
        unsafe runs.popAll()
        self.mtu = mtu
    }

    /// Seals the planned packets of `packets`, writes the datagrams consecutively from `out` on, and empties the plan.
    ///
    /// The bytes of the packets do not change. While a packet is sealed, padding is written after it, so
    /// ``mostPadding`` bytes after each packet must be writable; they are restored.
    /// - Parameters:
    ///   - packets: The views of the plan.
    ///   - out: The output buffer; it must not overlap any packet.
    ///   - capacity: Its size in bytes. Packets that do not fit are not sealed; their counters stay unused.
    ///   - emit: Called for each datagram with its offset from `out`, its length and its destination.
    @unsafe
    public func seal(
        _ packets: UnsafeBufferPointer<PacketView>, into out: UnsafeMutableRawPointer, capacity: Int,
        emit: (_ offset: Int, _ byteCount: Int, _ endpoint: Endpoint) -> Void
    ) {
        // A packet must not be sealed twice with one counter, and a plan must not retain a key that the engine wipes.
        defer { unsafe runs.popAll() }
        var offset = 0
        // By index, since a copy of a run would retain its keys once more.
        for run in unsafe runs.indices {
            let cipher = unsafe runs[run].keys.sealing
            let remoteIndex = unsafe runs[run].keys.remoteIndex
            let endpoint = unsafe runs[run].endpoint
            var counter = unsafe runs[run].firstCounter
            for index in unsafe runs[run].packets {
                let packet = unsafe packets[index]
                let byteCount = unsafe Message.minimumDataByteCount + Padding.paddedLength(packet.count, mtu: mtu)
                guard byteCount <= capacity - offset else { return }
                unsafe sealPacket(
                    packet.base, byteCount: packet.count, paddedTo: byteCount - Message.minimumDataByteCount, cipher,
                    remoteIndex, counter, into: out + offset)
                emit(offset, byteCount, endpoint)
                counter &+= 1
                offset += byteCount
            }
        }
    }
}

/// Writes one transport data message (WireGuard paper, section 5.4.6).
@inline(__always)
func sealPacket(
    _ packet: UnsafeMutableRawPointer, byteCount: Int, paddedTo padded: Int, _ cipher: TransportCipher,
    _ remoteIndex: UInt32, _ counter: UInt64, into out: UnsafeMutableRawPointer
) {
    unsafe out.storeLittleEndian(MessageKind.data.rawValue, at: 0)
    unsafe out.storeLittleEndian(remoteIndex, at: Message.Data.receiver)
    unsafe out.storeLittleEndian(counter, at: Message.Data.counter)
    let padding = padded &- byteCount
    let body = unsafe out + Message.dataHeaderByteCount
    guard padding > 0 else {
        unsafe cipher.seal(counter: counter, source: packet, byteCount: padded, destination: body)
        return
    }
    // Padding has at most 15 bytes. Save the bytes after the packet in a register pair while zeros replace them.
    let tail = unsafe packet + byteCount
    var saved: (UInt64, UInt64) = (0, 0)
    unsafe withUnsafeMutableBytes(of: &saved) { raw in
        unsafe raw.copyMemory(from: UnsafeRawBufferPointer(start: tail, count: padding))
    }
    unsafe tail.initializeMemory(as: UInt8.self, repeating: 0, count: padding)
    unsafe cipher.seal(counter: counter, source: packet, byteCount: padded, destination: body)
    unsafe withUnsafeBytes(of: &saved) { raw in
        unsafe tail.copyMemory(from: raw.baseAddress.unsafelyUnwrapped, byteCount: padding)
    }
}

extension ContiguousArray {
    /// Removes all elements, and keeps the memory. For the one run of most batches, `removeAll(keepingCapacity:)` takes
    /// several times as long.
    mutating func popAll() {
        while popLast() != nil {}
    }
}
