// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The state of a batch of received datagrams: first their sessions, then the packets inside.
///
/// The engine fills a plan, ``open(_:)`` decrypts on any thread, and the engine commits the result. A plan is reused
/// for each batch, and allocates no memory once it has reached its size.
@safe
public final class ReceivePlan {
    struct Run {
        let keypair: Keypair
        let keys: SessionKeys
        var datagrams: Range<Int>
    }

    /// The state of a datagram: -1 if it must not be opened, otherwise the length of the plaintext.
    typealias Length = Int32
    static let skipped: Length = -1

    /// Accesses are not checked at run time: one thread uses a plan at a time, and no access contains another.
    @exclusivity(unchecked) var runs: ContiguousArray<Run> = []
    let capacity: Int
    let lengths: UnsafeMutablePointer<Length>
    var count = 0
    /// The start time of the last piece of the batch, and the number of handshakes in it.
    var piece = (begun: Instant(nanoseconds: 0), handshakes: 0)

    /// A plan for batches of at most `capacity` datagrams.
    public init(capacity: Int) {
        self.capacity = max(capacity, 1)
        unsafe lengths = .allocate(capacity: self.capacity)
        unsafe lengths.initialize(repeating: ReceivePlan.skipped, count: self.capacity)
        unsafe runs.reserveCapacity(64)
    }

    deinit { unsafe lengths.deallocate() }

    /// The offset of the packet inside a datagram.
    public static let packetOffset = Message.dataHeaderByteCount

    /// Returns the length of the IP packet inside datagram `index`, after the engine has committed the plan; 0 if there
    /// is nothing to deliver.
    public func packetByteCount(at index: Int) -> Int {
        guard index >= 0, index < count else { return 0 }
        return unsafe max(Int(lengths[index]), 0)
    }

    /// Whether there is nothing to open.
    public var isEmpty: Bool { unsafe runs.isEmpty }

    func reset(count: Int) {
        unsafe runs.popAll()
        self.count = count
    }

    /// Decrypts, in place, the datagrams with a session.
    /// - Parameter datagrams: The views for which the plan was made.
    @unsafe
    public func open(_ datagrams: UnsafeBufferPointer<PacketView>) {
        // By index, since a copy of a run would retain its keys once more.
        for run in unsafe runs.indices {
            let cipher = unsafe runs[run].keys.opening
            for index in unsafe runs[run].datagrams where unsafe lengths[index] != ReceivePlan.skipped {
                let datagram = unsafe datagrams[index]
                let body = unsafe datagram.base + Message.dataHeaderByteCount
                let counter = unsafe UnsafeRawPointer(datagram.base).loadLittleEndian64(at: Message.Data.counter)
                let opened = unsafe cipher.open(
                    counter: counter, source: body, sealedByteCount: datagram.count - Message.dataHeaderByteCount,
                    destination: body)
                unsafe lengths[index] =
                    opened
                    ? Length(truncatingIfNeeded: datagram.count - Message.minimumDataByteCount)
                    : ReceivePlan.failed
            }
        }
    }

    /// The datagram is not authentic.
    static let failed: Length = -2
}
