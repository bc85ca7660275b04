// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The state of a received batch of datagrams: the session of each, then the packet inside.
///
/// The engine fills a plan, ``open(_:)`` decrypts on any thread, and the engine commits the result. One plan is reused for
/// each batch, and allocates nothing after it has reached its size.
@safe
public final class ReceivePlan {
    struct Run {
        let keypair: Keypair
        let keys: SessionKeys
        var datagrams: Range<Int>
    }

    /// The state of one datagram: -1 for not ours to open, otherwise the plaintext's length.
    typealias Length = Int32
    static let skipped: Length = -1

    var runs: ContiguousArray<Run> = []
    let capacity: Int
    let lengths: UnsafeMutablePointer<Length>
    var count = 0
    /// When the last piece of the batch was begun, and its work in handshakes.
    var piece = (begun: Instant(nanoseconds: 0), handshakes: 0)

    /// A plan for batches of at most `capacity` datagrams.
    public init(capacity: Int) {
        self.capacity = max(capacity, 1)
        unsafe lengths = .allocate(capacity: self.capacity)
        unsafe lengths.initialize(repeating: ReceivePlan.skipped, count: self.capacity)
        runs.reserveCapacity(64)
    }

    deinit { unsafe lengths.deallocate() }

    /// Where the packet inside a datagram begins, counted from the datagram's first byte.
    public static let packetOffset = Message.dataHeaderByteCount

    /// The bytes of the IP packet inside datagram `index`, after the engine has committed the plan; zero when there is
    /// nothing to deliver.
    public func packetByteCount(at index: Int) -> Int {
        guard index >= 0, index < count else { return 0 }
        return unsafe max(Int(lengths[index]), 0)
    }

    /// Whether there is nothing to open.
    public var isEmpty: Bool { runs.isEmpty }

    func reset(count: Int) {
        runs.removeAll(keepingCapacity: true)
        self.count = count
    }

    /// Decrypts in place the datagrams that the engine found a session for.
    /// - Parameter datagrams: the views that the plan was made for.
    @unsafe
    public func open(_ datagrams: UnsafeBufferPointer<PacketView>) {
        for run in runs {
            let cipher = run.keys.opening
            for index in run.datagrams where unsafe lengths[index] != ReceivePlan.skipped {
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
