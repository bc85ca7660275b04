// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO
import WireGuardCore

/// The server's end of the lanes: the clients, their addresses and their traffic.
final class ServerEnd: TunnelEnd, @unchecked Sendable {
    // Unchecked: the transport's lock guards all state.

    /// A client whose login was accepted.
    private final class Member {
        let id: ClientID
        let login: String
        let assignment: Body.Assignment
        let since: Instant
        /// Whether the server has sent the client the acceptance of its login.
        var hasJoined = false
        var moved = SessionTraffic()

        init(_ id: ClientID, _ login: String, _ assignment: Body.Assignment, since: Instant) {
            self.id = id
            self.login = login
            self.assignment = assignment
            self.since = since
        }
    }

    private var server: CredentialServer
    /// The client of each address.
    private var routes = AllowedIPs()
    /// The members, by the client's slot.
    private var members: ContiguousArray<Member?> = []
    var outbox = Outbox()
    private var counts = ServerDeviceStatistics()
    private let verify: (LoginAttempt) -> Bool
    private let ended: (ClientID, EndReason, SessionTraffic) -> Void

    private let mostAnswers: Int

    /// - Parameters:
    ///   - verify: Accepts a login for verification, and returns `false` if there is no place for it. Called under the
    ///     lock.
    ///   - ended: Called at the end of each session with an accepted login, under the lock.
    init(
        _ server: consuming CredentialServer, verify: @escaping (LoginAttempt) -> Bool,
        ended: @escaping (ClientID, EndReason, SessionTraffic) -> Void
    ) {
        mostAnswers = server.limits.answers
        self.server = server
        self.verify = verify
        self.ended = ended
    }

    // MARK: - Clients

    /// Applies the verdict on a login.
    func answer(_ attempt: LoginAttempt, _ verdict: LoginVerdict, at now: Instant) {
        let (id, slot) = (attempt.session, Int(attempt.session.slot))
        guard let assignment = verdict.assignment else {
            if case .refused = verdict { counts.refused += 1 }
            return perform(server.answer(id, verdict, at: now), at: now)
        }
        while members.count <= slot { members.append(nil) }
        members[slot] = Member(id, attempt.login, assignment, since: now)
        perform(server.answer(id, verdict, at: now), at: now)
        // The client has left before the verdict, or its assignment cannot be sent.
        if let member = members[slot], member.id == id, !member.hasJoined { forget(member, .expired) }
    }

    /// Returns the large memory that the tables no longer use. The caller releases it without the lock.
    func takeRetired() -> [RetiredMemory] { routes.takeRetired() + server.takeRetired() }

    /// Ends a session, and notifies its client.
    func disconnect(_ id: ClientID, _ reason: EndReason, at now: Instant) {
        perform(server.disconnect(id, reason), at: now)
    }

    /// Ends all sessions.
    func close(at now: Instant) {
        // No limit: there is one message for each client, and none of them will be sent again.
        for member in members.compactMap(\.self) {
            perform(server.disconnect(member.id, .shutdown), at: now, mostAnswers: .max)
        }
    }

    func sessions(at now: Instant) -> [ServerSession] {
        members.compactMap { member in
            guard let member, let client = server.client(member.id) else { return nil }
            return ServerSession(
                id: member.id, login: member.login, assignment: member.assignment, endpoint: client.endpoint,
                age: .nanoseconds(now.nanoseconds - member.since.nanoseconds),
                moved: member.moved)
        }
    }

    var statistics: ServerDeviceStatistics {
        var statistics = counts
        for member in members { if let member { statistics.moved.add(member.moved) } }
        statistics.protocolDrops = server.statistics
        statistics.sessions = server.establishedCount
        statistics.handshakes = server.waitingCount + server.verifyingCount
        return statistics
    }

    private func member(_ slot: Int32) -> Member? {
        slot >= 0 && Int(slot) < members.count ? members[Int(slot)] : nil
    }

    private func forget(_ member: Member, _ reason: EndReason) {
        routes.removeAll(of: member.id.slot)
        members[Int(member.id.slot)] = nil
        counts.moved.add(member.moved)
        ended(member.id, reason, member.moved)
    }

    private func perform(_ actions: [ServerAction], at now: Instant, mostAnswers: Int? = nil) {
        for action in actions {
            switch action {
            case .send(let bytes, let endpoint):
                if outbox.count < mostAnswers ?? self.mostAnswers {
                    outbox.append(bytes, to: endpoint)
                } else {
                    counts.answersDropped += 1
                }
            case .verify(let id, let login, let source): attempt(id, login, source, at: now)
            case .resume(let id, let login, let resumption, let source):
                attempt(id, login, source, resumption, at: now)
            case .joined(let id):
                guard let member = member(id.slot), member.id == id else { continue }
                counts.accepted += 1
                member.hasJoined = true
                for address in member.assignment.addresses {
                    routes.insert(IPPrefix(host: address.address), peer: id.slot)
                }
                // A handshake takes longer than these steps, and the next change may be long after this one.
                routes.continueGrowth(changes: 128)
            case .left(let id, let reason):
                if let member = member(id.slot), member.id == id { forget(member, reason) }
            case .moved, .deliver: break
            }
        }
    }

    private func attempt(
        _ id: ClientID, _ login: Body.ClientAuthRequest, _ source: Endpoint, _ resumption: [UInt8]? = nil,
        at now: Instant
    ) {
        var attempt = LoginAttempt(
            session: id, login: login.login, password: SecretBytes(Array(login.password.utf8)), source: source)
        attempt.resumption = resumption
        if !verify(attempt) { answer(attempt, .refused(Body.Refusal(.unavailable)), at: now) }
    }

    // MARK: - TunnelEnd

    func planSeal(_ plan: BatchPlan, at now: Instant) {
        var start = 0
        var slot: Int32 = -1
        for index in 0..<plan.count {
            // An empty packet was consumed by an earlier step, and is sent to no client.
            let isEmpty = plan.byteCount(index) == 0
            let owner = isEmpty ? -1 : unsafe routes.lookupDestination(of: UnsafeRawBufferPointer(plan.bytes(index)))
            if owner != slot {
                finish(start..<index, slot, plan, at: now)
                (start, slot) = (index, owner)
            }
            if owner < 0, !isEmpty { counts.noRoute += 1 }
        }
        finish(start..<plan.count, slot, plan, at: now)
    }

    private func finish(_ packets: Range<Int>, _ slot: Int32, _ plan: BatchPlan, at now: Instant) {
        guard let member = member(slot), !packets.isEmpty,
            let reserved = server.reserve(
                packets.count, to: member.id, at: now, byteCount: { plan.byteCount(packets.lowerBound + $0) })
        else { return }
        counts.unprovenAddress += packets.count - reserved.count
        guard reserved.count > 0 else { return }
        let sent = packets.prefix(reserved.count)
        plan.send(sent, from: reserved.first, under: reserved.keys, to: reserved.endpoint)
        member.moved.sentPackets &+= sent.count
        for index in sent { member.moved.sentBytes &+= plan.byteCount(index) }
    }

    func planOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant) {
        plan.planOpen { index in
            guard let session = server.session(receiving: index), session.isUsable(at: now) else { return nil }
            return session
        } other: { position in
            perform(
                unsafe server.received(plan.bytes(position), from: datagrams[endpoint: position], at: now), at: now)
        }
    }

    func commitOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant) {
        unsafe plan.commitOpen { position, header, session, packet in
            guard
                case (let client, let actions)? = server.commit(
                    header, to: session, byteCount: packet.count + Layout.sealedOverhead,
                    from: datagrams[endpoint: position], at: now)
            else { return 0 }
            if !actions.isEmpty { perform(actions, at: now) }
            guard client.state == .established, let member = member(client.id.slot) else {
                server.statistics.outOfPlace += 1
                return 0
            }
            guard unsafe !packet.isEmpty else {
                perform(server.answerEmpty(client, at: now), at: now)
                return 0
            }
            guard let total = unsafe IPHeader.totalLength(of: packet) else {
                counts.malformedPackets += 1
                return 0
            }
            guard unsafe routes.lookupSource(of: packet) == client.id.slot else {
                counts.disallowedSource += 1
                return 0
            }
            member.moved.receivedPackets &+= 1
            member.moved.receivedBytes &+= total
            return total
        } drop: { isForged in
            if isForged { server.statistics.forged += 1 } else { server.statistics.replayed += 1 }
        }
    }

    func deadlineReached(at now: Instant) {
        perform(server.deadlineReached(at: now), at: now)
    }

    var nextDeadline: Instant? { server.nextDeadline }
}
