// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
package import WireGuardCore

/// The server's state machine for all clients. Bytes, time and randomness are input; actions are output.
///
/// It has no clock, socket or thread. Call ``deadlineReached(at:)`` at ``nextDeadline``. The driver verifies passwords:
/// it answers each ``ServerAction/verify(_:_:from:)`` once, with ``answer(_:_:at:)``. At most
/// ``ServerLimits/verifiers`` of them are unanswered at any time, and at most ``ServerLimits/resumers`` of
/// ``ServerAction/resume(_:_:_:from:)``.
package struct CredentialServer: ~Copyable {
    let identity: Identity
    let shared: SharedKeys
    let limits: ServerLimits
    var random: any RandomNumberGenerator
    package internal(set) var statistics = ServerStatistics()

    private var checker = CookieChecker()
    private var load: LoadMonitor
    private var notices: NoticeLimiter
    private var sources: SourceRateLimiter

    /// The client of each session's index, by slot.
    var sessions = IndexTable()
    private var clients: [ServerClient?] = []
    private var generations: [UInt32] = []
    private var free: [Int32] = []
    private var hellos: [ServerClient.HelloKey: Int32] = [:]
    /// Clients that are pending or refused. All wait for the same time, so the client with the earliest deadline has
    /// waited the longest.
    private var waiting = DeadlineQueue()
    private var deadlines = DeadlineQueue()
    var logins: LoginQueue
    var resumptions: ResumptionQueue
    /// Seals and opens tickets; `nil` for a server without tickets.
    var tickets: TicketSealer?
    /// Whether a login has succeeded from an address recently.
    var isKnown: (String, IPAddress) -> Bool = { _, _ in false }
    /// The number of clients with an accepted login.
    package internal(set) var establishedCount = 0

    package init(
        privateKey: PrivateKey, presharedKey: PresharedKey, limits: ServerLimits = ServerLimits(),
        random: some RandomNumberGenerator
    ) {
        identity = Identity(privateKey)
        shared = SharedKeys(server: identity.publicKey, presharedKey: presharedKey)
        self.limits = limits
        self.random = random
        logins = LoginQueue(limits)
        resumptions = ResumptionQueue(limits)
        load = LoadMonitor(burst: limits.helloBurst, perSecond: limits.hellosPerSecond)
        notices = NoticeLimiter(limits)
        sources = SourceRateLimiter(
            capacity: limits.sources, perSecond: limits.sourceHellosPerSecond, burst: limits.sourceBurst)
    }

    // MARK: - Counts

    /// The number of handshakes that wait for a login, or were refused.
    package var waitingCount: Int { waiting.count }
    /// The number of logins without a verdict.
    var verifyingCount: Int { logins.count + resumptions.count }
    /// The number of all clients, and the number of all sessions.
    package var tableCounts: (clients: Int, sessions: Int) { (clients.count - free.count, sessions.count) }

    /// Returns the large memory that the table of sessions no longer uses.
    mutating func takeRetired() -> [RetiredMemory] { sessions.takeRetired() }

    // MARK: - Hello

    /// Responds to a hello. Until the sender's address is proven, no response is longer than its request.
    mutating func receivedHello(
        _ message: UnsafeRawBufferPointer, _ header: Header, from source: Endpoint, at now: Instant
    ) -> [ServerAction] {
        guard unsafe CookieChecker.isMac1Valid(message, key: shared.mac1Key) else {
            statistics.wrongKeys += 1
            return notice(.keyMismatch, index: header.index, to: source, at: now)
        }
        if load.messageArrived(at: now) {
            guard unsafe checker.isMac2Valid(message, from: source, at: now) else {
                statistics.cookies += 1
                return unsafe [.send(cookie(answering: message, header, from: source, at: now), to: source)]
            }
            guard sources.allow(source.address, at: now) else {
                statistics.limited += 1
                return []
            }
        }
        let noise = unsafe Array(message[Layout.ClientHello.noise..<Layout.ClientHello.mac1])
        let key = ServerClient.HelloKey(source: source, start: Array(header.bytes + noise))
        if let slot = hellos[key], let client = clients[Int(slot)] { return [.send(client.serverHello, to: source)] }
        guard
            var responder = NoiseResponder(
                prologue: SharedKeys.prologue(hello: header), identity: identity, message: noise)
        else { return [] }
        let client = add(key, header.index, source, &responder, at: now)
        responder.wipe()
        return client.map { [.send($0.serverHello, to: source)] } ?? []
    }

    private mutating func add(
        _ key: ServerClient.HelloKey, _ remote: UInt32, _ source: Endpoint, _ responder: inout NoiseResponder,
        at now: Instant
    ) -> ServerClient? {
        if waiting.count >= limits.pending, let oldest = waiting.earliest?.id {
            statistics.evicted += 1
            remove(oldest)
        }
        let local = sessions.freeIndex(using: &random)
        var ephemeral = Bytes32(random: &random)
        defer { ephemeral.wipe() }
        guard
            case (let message, var keys)? = responder.respond(
                ephemeral: ephemeral, presharedKey: shared.presharedKey, payload: SharedKeys.littleEndian(local))
        else { return nil }
        defer { keys.wipe() }
        let slot = free.popLast() ?? Int32(clients.count)
        if Int(slot) == clients.count {
            clients.append(nil)
            generations.append(0)
        }
        generations[Int(slot)] &+= 1
        let session = TunnelSession(
            keys, isClient: false, local: local, remote: remote, createdAt: now, slot: slot)
        sessions.insert(slot, at: local)
        let client = ServerClient(
            id: ClientID(slot: slot, generation: generations[Int(slot)]), endpoint: source, helloKey: key,
            serverHello: Header(code: .serverHello, index: remote).bytes + message, session: session)
        clients[Int(slot)] = client
        hellos[key] = slot
        waiting.set(slot, (now + limits.pendingLifetime).nanoseconds)
        return client
    }

    private mutating func cookie(
        answering message: UnsafeRawBufferPointer, _ header: Header, from source: Endpoint, at now: Instant
    ) -> [UInt8] {
        var reply = Header(code: .cookie, index: header.index).bytes
        reply += [UInt8](repeating: 0, count: Layout.Cookie.byteCount - reply.count)
        unsafe reply.withUnsafeMutableBytes { out in
            guard let base = out.baseAddress else { return }
            unsafe checker.writeCookie(
                answering: message, from: source, cookieKey: shared.cookieKey, at: now, random: &random, into: base)
        }
        return reply
    }

    /// Sends an unauthenticated notice, unless the share of its receiver is used up.
    mutating func notice(_ notice: Notice, index: UInt32, to source: Endpoint, at now: Instant) -> [ServerAction] {
        notices.allow(source.address, at: now) ? [.send(notice.datagram(index: index), to: source)] : []
    }

    // MARK: - Table

    func client(_ slot: Int32) -> ServerClient? {
        slot >= 0 && Int(slot) < clients.count ? clients[Int(slot)] : nil
    }

    func client(_ id: ClientID) -> ServerClient? {
        client(id.slot).flatMap { $0.id == id ? $0 : nil }
    }

    /// Removes a client in any state.
    mutating func remove(_ slot: Int32) {
        guard let client = client(slot) else { return }
        for session in [client.current, client.previous, client.next] {
            if let session { sessions.remove(session.keys.localIndex) }
        }
        hellos[client.helloKey] = nil
        waiting.remove(slot)
        deadlines.remove(slot)
        clients[Int(slot)] = nil
        free.append(slot)
    }

    /// Sets the client's next deadline.
    mutating func schedule(_ client: ServerClient, at now: Instant) {
        let slot = client.id.slot
        switch client.state {
        case .pending: waiting.set(slot, (now + limits.pendingLifetime).nanoseconds)
        case .verifying:
            // No deadline: the driver always answers.
            waiting.remove(slot)
        case .refused:
            waiting.set(slot, (now + limits.pendingLifetime).nanoseconds)
        case .established:
            waiting.remove(slot)
            let times = [client.expiry, client.graceEnd].compactMap(\.self)
            deadlines.set(slot, (times.min() ?? client.expiry).nanoseconds)
        }
    }

    // MARK: - Time

    /// The time to call ``deadlineReached(at:)``, or `nil` if no timer runs.
    package var nextDeadline: Instant? {
        [waiting.earliest?.deadline, deadlines.earliest?.deadline].compactMap(\.self).min().map {
            Instant(nanoseconds: $0)
        }
    }

    /// Performs the due actions.
    package mutating func deadlineReached(at now: Instant) -> [ServerAction] {
        var actions: [ServerAction] = []
        while let earliest = waiting.earliest, earliest.deadline <= now.nanoseconds { remove(earliest.id) }
        while let slot = deadlines.popExpired(now.nanoseconds) {
            guard let client = client(slot) else { continue }
            if client.expiry <= now {
                actions += leave(client, .expired)
                continue
            }
            if let graceEnd = client.graceEnd, graceEnd <= now {
                if let previous = client.previous { sessions.remove(previous.keys.localIndex) }
                client.previous = nil
                client.graceEnd = nil
            }
            schedule(client, at: now)
        }
        return actions
    }

    /// Removes a client with an accepted login.
    mutating func leave(_ client: ServerClient, _ reason: EndReason) -> [ServerAction] {
        establishedCount -= 1
        remove(client.id.slot)
        return [.left(client.id, reason)]
    }
}
