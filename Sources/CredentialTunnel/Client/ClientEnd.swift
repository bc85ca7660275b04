// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO
import WireGuardCore

/// An event of a client's logins and session.
package enum ClientEvent: Sendable, Equatable {
    /// A login was accepted: apply this assignment.
    case established(Body.Assignment)
    /// A login failed. An earlier session, if there is one, continues.
    case failed(CredentialError)
    /// The session has ended, and no login is in progress.
    case ended(EndReason)
    /// The keys were renewed, which proves that the server responds.
    case renewed
    /// The server may have lost the session: log in again, while the present session continues.
    case mayBeUnknown
    /// The first login was cancelled, because the server's port is closed.
    case portClosed
}

/// The traffic and drop counters of a client.
package struct ClientStatistics: Sendable, Equatable {
    /// The sealed IP packets, and their bytes.
    package var sentPackets = 0
    package var sentBytes = 0
    /// The delivered IP packets, and their bytes.
    package var receivedPackets = 0
    package var receivedBytes = 0
    /// Packets without a session to send them in.
    package var withoutSession = 0
    /// Datagrams that are not authentic, or belong to no session.
    package var forged = 0
    /// Datagrams that were received before.
    package var replayed = 0
    /// Authentic packets that are not IP packets.
    package var malformed = 0
}

extension ClientStatistics {
    /// The drop causes of a client.
    static let dropCauses: [DropCause<Self, Int>] = [
        ("without session", \.withoutSession, "Packets for which there was no session."),
        ("forged", \.forged, "Datagrams that are not authentic, or belong to no session."),
        ("replayed", \.replayed, "Datagrams that were received before."),
        ("malformed packets", \.malformed, "Authentic packets that are not IP packets."),
    ]
}

/// The client's end of the lanes: the session in use and, during a login, the session that will replace it.
final class ClientEnd: TunnelEnd, @unchecked Sendable {
    // Unchecked: the transport's lock guards all state.

    /// A login and its session.
    final class Attempt {
        var client: CredentialClient
        /// The possible addresses of the server; only one after it has responded.
        var endpoints: [Endpoint]
        private var turn = 0

        init(_ client: consuming CredentialClient, _ endpoints: [Endpoint]) {
            self.client = client
            self.endpoints = endpoints
        }

        /// Returns the destination of the next datagram: each address in turn, until the server responds.
        func nextEndpoint() -> Endpoint {
            defer { turn += 1 }
            return endpoints[turn % endpoints.count]
        }
    }

    private var active: Attempt?
    private var candidate: Attempt?
    /// The latest ticket, for the next login of this run.
    private(set) var ticket: LoginTicket?
    var outbox = Outbox()
    private(set) var statistics = ClientStatistics()
    /// The number of times that an authentic datagram has proven that the server responds.
    private(set) var proofs: UInt64 = 0
    private let emit: (ClientEvent) -> Void

    /// - Parameter emit: Called under the transport's lock.
    init(emit: @escaping (ClientEvent) -> Void) { self.emit = emit }

    // MARK: - Logins

    /// Begins a login, and cancels one in progress.
    func logIn(_ client: consuming CredentialClient, at endpoints: [Endpoint], now: Instant) {
        guard !endpoints.isEmpty else { return }
        let attempt = Attempt(client, endpoints)
        candidate = attempt
        perform(attempt.client.start(at: now), of: attempt)
    }

    /// Cancels the first login because the server's port is closed. Has no effect after a response.
    func cancelLoginAtClosedPort(now: Instant) {
        guard active == nil, candidate?.client.awaitsResponse(at: now) == true else { return }
        candidate = nil
        emit(.portClosed)
    }

    /// Renews the keys immediately, from the current network.
    func renew(now: Instant) {
        guard let active else { return }
        perform(active.client.renew(at: now), of: active)
    }

    /// Sends a packet as if the interface had sent it.
    /// - Returns: Whether there is a session to send it in.
    func submit(_ packet: [UInt8], now: Instant) -> Bool {
        guard let active, let (keys, counter, count) = active.client.reserve(1, at: now), count == 1 else {
            return false
        }
        let header = Header(code: .data, index: keys.remoteIndex, counter: counter)
        outbox.append(MessageEncoder.seal(header, packet, keys: keys), to: active.endpoints[0])
        return true
    }

    /// Sends to the server's newly resolved address from now on, unless the present address is among the new ones.
    func move(to endpoints: [Endpoint]) {
        guard let first = endpoints.first, let active, !active.endpoints.contains(where: endpoints.contains) else {
            return
        }
        active.endpoints = [first]
    }

    /// Ends logins and session, and notifies the server.
    func close() {
        candidate = nil
        if let active { perform(active.client.close(), of: active) }
        active = nil
    }

    var isEstablished: Bool { active?.client.isEstablished == true }
    /// Whether the server owes an answer: to a datagram of the session, or to a login.
    var isOwed: Bool { active.map { $0.client.owedSince != nil } ?? true }
    /// The server's address.
    var endpoint: Endpoint? { (active ?? candidate)?.endpoints.first }
    /// The number of renewals of the session's keys.
    var rekeys: Int { active?.client.rekeys ?? 0 }
    /// The time at which the session's keys were made.
    var keysMadeAt: Instant? { active?.client.current?.createdAt }

    private func perform(_ actions: [ClientAction], of attempt: Attempt) {
        for action in actions {
            switch action {
            case .send(let bytes): outbox.append(bytes, to: attempt.nextEndpoint())
            case .established(let assignment):
                let former = active
                active = attempt
                ticket = attempt.client.ticket
                candidate = nil
                proofs += 1
                // The new session replaces the former one, so end the former one at the server.
                if let former { perform(former.client.close(), of: former) }
                emit(.established(assignment))
            case .mayBeUnknown: if candidate == nil { emit(.mayBeUnknown) }
            case .failed(let error):
                if attempt === candidate { candidate = nil }
                if case .refused = error { ticket = nil }
                emit(.failed(error))
            case .ended(let reason):
                guard attempt === active else { continue }
                active = nil
                // If a login is in progress, its result is the next event.
                if candidate == nil { emit(.ended(reason)) }
            case .deliver: break
            }
        }
    }

    // MARK: - TunnelEnd

    func planSeal(_ plan: BatchPlan, at now: Instant) {
        guard let active, let reserved = active.client.reserve(plan.count, at: now) else {
            statistics.withoutSession += plan.count
            return
        }
        plan.send(0..<reserved.count, from: reserved.first, under: reserved.keys, to: active.endpoints[0])
        statistics.withoutSession += plan.count - reserved.count
        statistics.sentPackets += reserved.count
        for index in 0..<reserved.count { statistics.sentBytes &+= plan.byteCount(index) }
    }

    func planOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant) {
        plan.planOpen { index in
            guard let active, let session = active.client.session(receiving: index), session.isUsable(at: now) else {
                return nil
            }
            return session
        } other: { position in
            for attempt in [active, candidate].compactMap(\.self) {
                let rekeys = attempt.client.rekeys
                let actions = unsafe attempt.client.received(plan.bytes(position), at: now)
                let source = datagrams[endpoint: position]
                if !actions.isEmpty, let one = attempt.endpoints.first(where: { $0 == source }) {
                    attempt.endpoints = [one]
                }
                perform(actions, of: attempt)
                if attempt.client.rekeys != rekeys {
                    proofs += 1
                    emit(.renewed)
                }
                if attempt === active { ticket = attempt.client.ticket }
            }
        }
    }

    func commitOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant) {
        unsafe plan.commitOpen { _, header, session, packet in
            guard let active, let actions = active.client.commit(header, to: session, at: now) else {
                statistics.replayed += 1
                return 0
            }
            perform(actions, of: active)
            proofs += 1
            guard unsafe !packet.isEmpty else { return 0 }
            guard let total = unsafe IPHeader.totalLength(of: packet) else {
                statistics.malformed += 1
                return 0
            }
            statistics.receivedPackets &+= 1
            statistics.receivedBytes &+= total
            return total
        } drop: { isForged in
            if isForged { statistics.forged += 1 } else { statistics.replayed += 1 }
        }
    }

    func deadlineReached(at now: Instant) {
        for attempt in [active, candidate].compactMap(\.self) {
            perform(attempt.client.deadlineReached(at: now), of: attempt)
        }
    }

    var nextDeadline: Instant? {
        switch (active?.client.nextDeadline, candidate?.client.nextDeadline) {
        case (let one?, let other?): min(one, other)
        case (let one, let other): one ?? other
        }
    }
}
