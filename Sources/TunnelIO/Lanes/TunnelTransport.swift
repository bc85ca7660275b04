// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A tunnel protocol as a lane uses it: it processes whole batches.
///
/// Lanes call it from their own threads, several at once if there are several lanes. An implementation does its own locking
/// and must not hold a lock while it encrypts or decrypts. If ``drain(into:)`` returns packets that waited for a session, a
/// call of ``seal(_:into:at:)`` for later packets must wait until ``drainEnded()``: other lanes send at the same time as the
/// lane that drains.
public protocol TunnelTransport: AnyObject, Sendable {
    /// Seals the IP packets of `packets` and appends the datagrams, with their endpoints, to `datagrams`.
    ///
    /// `datagrams` is empty and has room for each packet of the batch plus 64 bytes. The bytes of `packets` may be
    /// overwritten. The 32 bytes behind a packet, which a device keeps free, may be used as long as they are restored.
    ///
    /// `now` is the present time of ``LaneClock``.
    /// - Returns: whether ``drain(into:)`` has datagrams to append.
    func seal(_ packets: PacketBatch, into datagrams: PacketBatch, at now: Int64) -> Bool

    /// Opens `datagrams` in place: each descriptor is narrowed to the IP packet inside, or to length zero if nothing is to be
    /// delivered.
    ///
    /// `now` is the present time of ``LaneClock``. `answer` sends the result of ``drain(into:)``. Call it without holding a
    /// lock, if responses to some of the datagrams should not wait for the work on the others.
    /// - Returns: whether ``drain(into:)`` has datagrams to append.
    func open(_ datagrams: PacketBatch, at now: Int64, answer: () -> Void) -> Bool

    /// Appends datagrams that wait to be sent for other reasons (handshakes, keepalives, packets that waited for
    /// a session) to `datagrams`, which has room for at least one of 64 KiB. Only one lane calls it.
    /// - Returns: whether more are waiting; then the lane sends these and calls again.
    func drain(into datagrams: PacketBatch) -> Bool

    /// Called after the lane has sent a sequence of drained packets. More packets may still be waiting.
    func drainEnded()

    /// Called when the deadline of ``waitingWork`` has passed. Only one lane calls it.
    func deadlineReached()

    /// The work for a later call of the lanes.
    ///
    /// A lane reads it after each of its rounds. Call ``Lane/wake()`` if another thread adds datagrams or moves the deadline
    /// forward.
    var waitingWork: TransportWork { get }
}

/// The work of a transport for a later call of its lanes: waiting datagrams and the next deadline.
public struct TransportWork: Hashable, Sendable {
    /// Whether ``TunnelTransport/drain(into:)`` has datagrams to append.
    public var hasDatagrams: Bool
    /// The time of the next call of ``TunnelTransport/deadlineReached()``, on ``LaneClock``; `nil` if nothing is pending.
    public var deadline: Int64?

    /// Nothing, unless the arguments are set.
    public init(hasDatagrams: Bool = false, deadline: Int64? = nil) {
        self.hasDatagrams = hasDatagrams
        self.deadline = deadline
    }
}
