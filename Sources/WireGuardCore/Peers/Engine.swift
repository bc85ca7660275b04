// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The WireGuard protocol without clock, sockets or threads. Its inputs are bytes and times; its outputs are bytes and
/// the next deadline.
///
/// An engine is one device: a static key, peers, their sessions and allowed IPs. Its owner calls one method for each
/// event: packets to send (``planSend(_:mtu:at:wall:into:)``), received datagrams
/// (``planOpen(_:endpoints:at:wall:into:)``), a passed deadline (``deadlineReached(at:wall:)``), or a change of
/// configuration. The owner then sends the output of ``drain(into:maximumMessages:maximumBytes:mtu:at:wall:)``.
///
/// These calls do no expensive work of the data path. They return *plans*, whose packets are sealed and opened by pure
/// functions without access to the engine. An owner with several threads protects the engine with a lock, and holds it
/// only for planning and committing.
///
/// Source: Jason A. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel" (the WireGuard paper).
public struct Engine: ~Copyable, @unchecked Sendable {
    // Unchecked: the engine is the only owner of its objects and cannot be copied, so it can move between threads. Its
    // owner must provide exclusive access.

    var identity: Identity?
    /// The number of changes of ``identity``.
    var identityNumber: UInt64 = 0
    var peers: ContiguousArray<Peer?> = []
    var freeSlots: [Int32] = []
    /// The slots of the peers, by the hashes of their keys.
    var slots = SteppedTable()
    var allowedIPs = AllowedIPs()
    var indices = IndexTable()
    var timers = DeadlineQueue()
    var cookieChecker = CookieChecker()
    var load: LoadMonitor
    var rateLimiter: SourceRateLimiter
    /// The time of the next search for the rate limiter's stale sources.
    var staleSourcesDue = Instant(nanoseconds: .min)
    var outbox = Outbox()
    /// The peers whose staged packets can be sent now, because they have a session. The slot of a removed peer may still be
    /// in it.
    var drainQueue: [Int32] = []
    var stagedBytes = 0
    var stagedPackets = 0
    var random: any RandomNumberGenerator
    /// Created from ``random`` when it is first needed.
    var jitterSource: JitterSource?
    /// The latest time of any event. Time never decreases inside the engine.
    var latest = Instant(nanoseconds: .min)

    /// The bounds that were set at the start.
    public let limits: EngineLimits
    /// The statistics so far.
    public internal(set) var statistics = EngineStatistics()
    /// Whether the device is up. While it is down, nothing is sent and datagrams are ignored.
    public internal(set) var isUp = false

    /// Creates an engine without key and peers, which is down.
    /// - Parameters:
    ///   - random: The source of keys, indices, nonces and the seed of jitter; cryptographically secure outside tests.
    ///   - limits: The bounds of its memory.
    public init(random: any RandomNumberGenerator, limits: EngineLimits = EngineLimits()) {
        self.random = random
        self.limits = limits
        load = LoadMonitor(burst: limits.handshakeBurst, perSecond: limits.handshakesPerSecond)
        rateLimiter = SourceRateLimiter(
            capacity: limits.rateLimitedSources, perSecond: limits.handshakesPerSecondAndSource,
            burst: limits.handshakeBurstPerSource)
    }

    // This empty deinit is necessary. Swift 6.3 destroys a value of another module's type member by member, and then omits
    // the deinit of members of generic types: tables of allowed IPs would leak. With a deinit, this module destroys them.
    deinit {}

    /// The time of the next call of ``deadlineReached(at:wall:)``, or `nil` if no timer is armed.
    ///
    /// It may be too early, in which case the call only moves it. It is never late.
    public var nextDeadline: Instant? {
        guard let earliest = timers.earliest else { return nil }
        return Instant(nanoseconds: earliest.deadline)
    }

    /// The number of peers.
    public var peerCount: Int { slots.count }

    /// The numbers of items that wait inside the engine: packets for a session, and handshake messages to send.
    package var queueDepths: (packets: Int, messages: Int) { (stagedPackets, outbox.count) }

    /// Returns the time of an event, which never decreases.
    @inline(__always)
    mutating func advance(to now: Instant) -> Instant {
        if now > latest { latest = now }
        return latest
    }

    func peer(at slot: Int32) -> Peer? {
        guard slot >= 0, Int(slot) < peers.count else { return nil }
        return peers[Int(slot)]
    }

    /// The slot of a peer; `nil` if there is no such peer.
    func slot(of key: PublicKey) -> Int32? {
        slots.slot(hash: key.tableHash) { peers[Int($0)]?.publicKey == key }
    }

    func peer(_ key: PublicKey) -> Peer? { slot(of: key).flatMap { peers[Int($0)] } }

    mutating func jitter() -> Int64 {
        // This is called for every batch of a busy session, so it must not make a system call. An attacker gains
        // nothing by guessing the value.
        if jitterSource == nil { jitterSource = JitterSource(seed: random.next()) }
        return jitterSource?.next(upTo: TimerConstants.maximumJitter) ?? 0
    }
}
