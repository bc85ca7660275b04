// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What a lane asks of a tunnel protocol: whole batches in, whole batches out.
///
/// Lanes call from their own threads, several at once where there are several lanes; an implementation does its own
/// locking and must not hold a lock while it encrypts or decrypts.
public protocol TunnelTransport: AnyObject, Sendable {
    /// Seals the IP packets of `packets` and appends the datagrams, with their endpoints, to `datagrams`.
    ///
    /// `datagrams` is empty and has room for each packet of the batch plus 64 bytes. The bytes of `packets` may be
    /// overwritten. The 32 bytes behind a packet, which a device keeps free, may be used as long as they are restored.
    func seal(_ packets: PacketBatch, into datagrams: PacketBatch)

    /// Opens `datagrams` in place: each descriptor is narrowed to the IP packet inside, or to length zero where
    /// there is nothing to deliver.
    func open(_ datagrams: PacketBatch)

    /// Appends datagrams that wait to be sent for other reasons (handshakes, keepalives, packets that waited for
    /// a session) to `datagrams`, which has room for at least one of 64 KiB.
    /// - Returns: whether more are waiting; then the lane sends these and calls again.
    func drain(into datagrams: PacketBatch) -> Bool

    /// Called when ``nextDeadline`` has passed.
    func deadlineReached()

    /// When ``deadlineReached()`` is to be called next, on ``LaneClock``; nil while nothing is pending.
    ///
    /// It is read after every round of a lane. A deadline that moves forward meanwhile needs a ``Lane/wake()``.
    var nextDeadline: Int64? { get }
}
