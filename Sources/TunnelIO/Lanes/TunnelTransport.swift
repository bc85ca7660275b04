// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What a lane asks of a tunnel protocol: whole batches in, whole batches out.
///
/// Lanes call from their own threads, several at once where there are several lanes; an implementation does its own
/// locking and must not hold a lock while it encrypts or decrypts. Where packets wait for a session and are given out by
/// ``drain(into:)`` in the end, later ones that ``seal(_:into:)`` is given meanwhile must wait too, until
/// ``drainEnded()``: the lane that drains is not the only one that sends.
public protocol TunnelTransport: AnyObject, Sendable {
    /// Seals the IP packets of `packets` and appends the datagrams, with their endpoints, to `datagrams`.
    ///
    /// `datagrams` is empty and has room for each packet of the batch plus 64 bytes. The bytes of `packets` may be
    /// overwritten. The 32 bytes behind a packet, which a device keeps free, may be used as long as they are restored.
    func seal(_ packets: PacketBatch, into datagrams: PacketBatch)

    /// Opens `datagrams` in place: each descriptor is narrowed to the IP packet inside, or to length zero where
    /// there is nothing to deliver.
    ///
    /// `answer` sends what ``drain(into:)`` has to give. It is called in between, with no lock held, where answers to some of
    /// the datagrams should not wait for work that the rest makes.
    func open(_ datagrams: PacketBatch, answer: () -> Void)

    /// Sealing and opening in steps, for lanes with workers; nil where there is no such thing. Then lanes do it all
    /// themselves. Each call makes another object.
    func makeSteps() -> (any TransportSteps)?

    /// Appends datagrams that wait to be sent for other reasons (handshakes, keepalives, packets that waited for
    /// a session) to `datagrams`, which has room for at least one of 64 KiB. Only one lane calls it.
    /// - Returns: whether more are waiting; then the lane sends these and calls again.
    func drain(into datagrams: PacketBatch) -> Bool

    /// Called once the lane has sent all that it drained in a row. More may be waiting still.
    func drainEnded()

    /// Whether ``drain(into:)`` has something to give.
    ///
    /// It is read after every round of a lane that does not drain itself.
    var hasPending: Bool { get }

    /// Called when ``nextDeadline`` has passed. Only one lane calls it.
    func deadlineReached()

    /// When ``deadlineReached()`` is to be called next, on ``LaneClock``; nil while nothing is pending.
    ///
    /// It is read after every round of a lane. A deadline that moves forward meanwhile needs a ``Lane/wake()``.
    var nextDeadline: Int64? { get }
}

/// The way of one batch through a transport, in steps, so that the expensive one may happen on another thread.
///
/// An object is used for one batch after the other, and for one at a time. The steps of a batch happen one after the other,
/// on whatever threads; those that plan and commit happen in the order of the batches. What is said of
/// ``TunnelTransport/seal(_:into:)`` and ``TunnelTransport/open(_:answer:)`` holds for the steps together.
public protocol TransportSteps: AnyObject, Sendable {
    /// Settles what is to be sent, under which keys and numbers. Called on the lane's thread, batch after batch.
    func planSeal(_ packets: PacketBatch)

    /// Seals what was planned. Called on any thread, at the same time as other batches.
    func seal(_ packets: PacketBatch, into datagrams: PacketBatch)

    /// Settles which keys are to open what. Called on the lane's thread, batch after batch. `answer` is as in
    /// ``TunnelTransport/open(_:answer:)``.
    func planOpen(_ datagrams: PacketBatch, answer: () -> Void)

    /// Opens in place. Called on any thread, at the same time as other batches.
    func open(_ datagrams: PacketBatch)

    /// Settles what may be delivered, and narrows the descriptors. Called on the lane's thread, batch after batch.
    func commitOpen(_ datagrams: PacketBatch)
}
