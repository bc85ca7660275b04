// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import WireGuardCore

extension CredentialServer {
    // MARK: - Datagrams

    /// Handles a datagram, and opens it in place. A datagram that is not authentic has no effect.
    ///
    /// For single datagrams. For batches, a transport calls ``session(receiving:)``,
    /// ``MessageDecoder/openInPlace(_:_:keys:)`` and ``commit(_:to:byteCount:from:at:)``.
    package mutating func received(
        _ datagram: UnsafeMutableRawBufferPointer, from source: Endpoint, at now: Instant
    ) -> [ServerAction] {
        guard let header = try? unsafe MessageDecoder.header(of: UnsafeRawBufferPointer(datagram)) else {
            statistics.malformed += 1
            return []
        }
        switch header.code {
        case .clientHello:
            return unsafe receivedHello(UnsafeRawBufferPointer(datagram), header, from: source, at: now)
        case .clientAuthRequest, .data, .rekeyRequest, .disconnect: break
        case .serverHello, .serverAuthResponse, .cookie, .rekeyResponse, .error:
            statistics.malformed += 1
            return []
        }
        guard let session = session(receiving: header.index) else {
            statistics.unknownSessions += 1
            return notice(.unknownSession, index: header.index, to: source, at: now)
        }
        guard session.isUsable(at: now),
            let range = unsafe MessageDecoder.openInPlace(header, datagram, keys: session.keys)
        else {
            statistics.forged += 1
            return []
        }
        guard
            case (let client, var actions)? = commit(
                header, to: session, byteCount: datagram.count, from: source, at: now)
        else { return [] }
        switch (header.code, client.state) {
        case (.data, .established):
            if range.isEmpty {
                actions += answerEmpty(client, at: now)
            } else {
                actions.append(.deliver(client.id, range))
            }
        case (.clientAuthRequest, _):
            var body = unsafe Array(datagram[range])
            actions += receivedLogin(body, client, at: now)
            unsafe body.withUnsafeMutableBytes { unsafe wipe($0) }
            unsafe wipe(UnsafeMutableRawBufferPointer(rebasing: datagram[range]))
        case (.rekeyRequest, .established):
            actions += receivedRekey(unsafe Array(datagram[range]), client, session, at: now)
        case (.disconnect, .established):
            actions += leave(client, .closed)
        default: statistics.outOfPlace += 1
        }
        return actions
    }

    /// Returns the session of datagrams with this index.
    package func session(receiving index: UInt32) -> TunnelSession? {
        guard let slot = sessions[index] else { return nil }
        return client(slot)?.session(withLocalIndex: index)
    }

    /// Records an opened datagram, which proves the client's use of the key. A key that was sent to this address only proves the
    /// address as well.
    /// - Returns: The client and the actions, or `nil` if the datagram was received before and must be dropped.
    mutating func commit(
        _ header: Header, to session: TunnelSession, byteCount: Int, from source: Endpoint, at now: Instant
    ) -> (ServerClient, [ServerAction])? {
        // Another client may have the slot since the datagram was opened.
        guard let client = client(session.slot), client.session(withLocalIndex: session.keys.localIndex) === session
        else { return nil }
        // The hello proved one address. Before the login is accepted, a datagram from another address may be an attempt
        // to make the server send datagrams to a victim.
        guard client.state == .established || client.endpoint == source else {
            statistics.outOfPlace += 1
            return nil
        }
        guard session.accept(header.counter) else {
            statistics.replayed += 1
            return nil
        }
        var actions: [ServerAction] = []
        // Ignore the address of a datagram under the previous key: it may be delayed, from an address that the client
        // had earlier.
        if session !== client.previous {
            if client.endpoint != source, client.state == .established {
                actions.append(.moved(client.id, to: source))
                client.proof.move(to: source)
            }
            // Set the endpoint even if it is equal, because its local address may differ.
            client.endpoint = source
            client.proof.recordReceived(byteCount)
        }
        if session === client.next {
            if client.rekey?.endpoint == source { client.proof.prove(source) }
            actions += promote(session, of: client, at: now)
        }
        if header.code == .data, session === client.current, client.proof.mustAsk(at: now) {
            // This is the only message that has every client renew its keys.
            let question = Notice.unknownSession.datagram(index: session.keys.localIndex)
            actions += send(question, to: client)
        }
        return (client, actions)
    }

    private func send(_ datagram: [UInt8]?, to client: ServerClient) -> [ServerAction] {
        guard let datagram else { return [] }
        client.proof.recordSent(datagram.count)
        return [.send(datagram, to: client.endpoint)]
    }

    /// Switches to the new key, because the client uses it now, and confirms the switch with an empty packet.
    private mutating func promote(
        _ session: TunnelSession, of client: ServerClient, at now: Instant
    ) -> [ServerAction] {
        if let previous = client.previous { sessions.remove(previous.keys.localIndex) }
        client.previous = client.current
        client.current = session
        client.next = nil
        client.graceEnd = now + limits.timing.grace
        schedule(client, at: now)
        if let renewal = ticketRenewal(client, client.current, at: now) { return send(renewal, to: client) }
        return sendEmpty(client, at: now)
    }

    /// Answers a client's empty packet with an empty packet, which proves that the session is known.
    func answerEmpty(_ client: ServerClient, at now: Instant) -> [ServerAction] {
        if let last = client.lastEmptyAnswer, now < last + limits.emptyAnswerGap { return [] }
        return sendEmpty(client, at: now)
    }

    private func sendEmpty(_ client: ServerClient, at now: Instant) -> [ServerAction] {
        client.lastEmptyAnswer = now
        return send(client.current.seal(.data), to: client)
    }

    // MARK: - Login

    private mutating func receivedLogin(_ body: [UInt8], _ client: ServerClient, at now: Instant) -> [ServerAction] {
        switch client.state {
        case .verifying: return []
        // Respond only to the address that the hello proved, because the response may be larger than the request.
        case .refused, .established:
            let isProven = client.endpoint == client.helloKey.source && client.proof.isProven
            return isProven ? respond(client) : []
        case .pending: break
        }
        guard let request = try? MessageDecoder.ticketedLogin(body) else {
            return refuse(client, Body.Refusal(.credentials), at: now)
        }
        let login = request.login
        client.wantsTicket = request.ticket != nil
        guard establishedCount + verifyingCount < limits.clients else {
            return refuse(client, Body.Refusal(.full), at: now)
        }
        removeExpiredLogins(at: now)
        let entry = LoginQueue.Login(
            client: client.id, request: login, source: client.endpoint,
            isKnown: isKnown(login.login, client.endpoint.address),
            deadline: client.current.createdAt + limits.timing.loginDeadline,
            resumption: resumption(of: request, in: client.current))
        guard enqueue(entry, of: client, at: now) else { return [] }
        return nextVerifications(at: now)
    }

    /// Adds a login to its queue. Returns `false` if there is no place for it.
    private mutating func enqueue(_ entry: LoginQueue.Login, of client: ServerClient, at now: Instant) -> Bool {
        if entry.resumption != nil {
            guard resumptions.add(entry) else {
                statistics.verificationsFull += 1
                return false
            }
            client.state = .verifying
            schedule(client, at: now)
            return true
        }
        switch logins.add(entry) {
        case .full:
            statistics.verificationsFull += 1
            return false
        case .displaced(let id):
            statistics.verificationsReplaced += 1
            // The login of the displaced client waits no longer. The client will repeat it.
            guard let displaced = self.client(id) else { break }
            displaced.state = .pending
            schedule(displaced, at: now)
        case .queued: break
        }
        client.state = .verifying
        schedule(client, at: now)
        return true
    }

    /// Removes the clients that have timed out while their logins waited.
    private mutating func removeExpiredLogins(at now: Instant) {
        for id in logins.removeExpired(at: now) + resumptions.removeExpired(at: now) {
            statistics.verificationsExpired += 1
            remove(id.slot)
        }
    }

    /// Passes waiting logins to the driver, up to the number that it can verify at the same time.
    private mutating func nextVerifications(at now: Instant) -> [ServerAction] {
        removeExpiredLogins(at: now)
        var actions: [ServerAction] = []
        while let login = resumptions.next(besides: logins.names) {
            actions.append(.resume(login.client, login.request, login.resumption ?? [], from: login.source))
        }
        while let login = logins.next(besides: resumptions.names) {
            actions.append(.verify(login.client, login.request, from: login.source))
        }
        return actions
    }

    /// Applies the verdict on ``ServerAction/verify(_:_:from:)`` or ``ServerAction/resume(_:_:_:from:)``. A verdict on
    /// another client has no effect.
    package mutating func answer(_ id: ClientID, _ verdict: LoginVerdict, at now: Instant) -> [ServerAction] {
        let name: String
        if let login = resumptions.finish(id) {
            guard verdict != .notResumed else {
                verifyPassword(of: login, at: now)
                return nextVerifications(at: now)
            }
            name = login.request.login
        } else if let verified = logins.finish(id) {
            name = verified
        } else {
            return []
        }
        return finish(id, name, verdict, at: now) + nextVerifications(at: now)
    }

    /// Verifies the password of a login whose ticket is void.
    private mutating func verifyPassword(of login: LoginQueue.Login, at now: Instant) {
        guard let client = client(login.client), client.state == .verifying else { return }
        var login = login
        login.resumption = nil
        guard !enqueue(login, of: client, at: now) else { return }
        // The client repeats its login.
        client.state = .pending
        schedule(client, at: now)
    }

    private mutating func finish(
        _ id: ClientID, _ login: String, _ verdict: LoginVerdict, at now: Instant
    ) -> [ServerAction] {
        guard let client = client(id), client.state == .verifying else { return [] }
        switch verdict {
        case .refused(let refusal): return refuse(client, refusal, at: now)
        case .notResumed: return refuse(client, Body.Refusal(.unavailable), at: now)
        case .accepted(let assignment), .resumable(let assignment, _):
            if case .resumable(_, let grant) = verdict, client.wantsTicket {
                client.tickets = ServerClient.Tickets(
                    login: login, assignment: assignment, grant: grant, sentAt: now)
            }
            let ticket = client.tickets.flatMap { newTicket($0, in: client.current) }
            guard let response = try? MessageEncoder.encode(.accepted(assignment), ticket: ticket) else {
                // The driver's assignment exceeds its bounds: refuse the client, and return the assignment to the
                // driver.
                return refuse(client, Body.Refusal(.unavailable), at: now) + [.left(id, .closed)]
            }
            guard client.current.isUsable(at: now) else {
                remove(id.slot)
                return [.left(id, .expired)]
            }
            client.response = response
            client.state = .established
            establishedCount += 1
            schedule(client, at: now)
            return respond(client) + [.joined(id)]
        }
    }

    private mutating func refuse(
        _ client: ServerClient, _ refusal: Body.Refusal, at now: Instant
    ) -> [ServerAction] {
        let fallback = Body.Refusal(.unavailable)
        guard
            let response = (try? MessageEncoder.encode(.refused(refusal)))
                ?? (try? MessageEncoder.encode(.refused(fallback)))
        else { return [] }
        client.response = response
        client.state = .refused
        schedule(client, at: now)
        return respond(client)
    }

    private func respond(_ client: ServerClient) -> [ServerAction] {
        send(client.current.seal(.serverAuthResponse, client.response), to: client)
    }

    // MARK: - Rekey

    /// The minimum time between two rekeys of a client whose address is not proven.
    private static let proofGap = Duration.seconds(1)

    private mutating func receivedRekey(
        _ body: [UInt8], _ client: ServerClient, _ session: TunnelSession, at now: Instant
    ) -> [ServerAction] {
        // Renew the keys of the current session only: the request may be delayed, and an earlier session would bring
        // back keys that were replaced.
        guard session === client.current, body.count == Layout.Rekey.byteCount else {
            statistics.outOfPlace += 1
            return []
        }
        client.proof.recordRenewal(at: now)
        if let rekey = client.rekey, rekey.request == body, client.next != nil {
            if rekey.endpoint != client.endpoint { client.rekey?.endpoint = nil }
            return send(session.seal(.rekeyResponse, rekey.response), to: client)
        }
        // A client that must prove its address may renew its keys sooner.
        let gap = client.proof.isProven ? limits.rekeyGap : min(limits.rekeyGap, Self.proofGap)
        guard (client.next ?? session).createdAt + gap <= now else {
            statistics.limited += 1
            // An empty packet proves to the client that the session is known.
            return send(session.seal(.data), to: client)
        }
        let remote = SharedKeys.index(body)
        guard
            var responder = NoiseResponder(
                prologue: SharedKeys.prologue(rekeyTo: remote), identity: identity,
                message: Array(body[Layout.Rekey.requestNoise...]))
        else { return [] }
        defer { responder.wipe() }
        if let next = client.next { sessions.remove(next.keys.localIndex) }
        client.next = nil
        let local = sessions.freeIndex(using: &random)
        var ephemeral = Bytes32(random: &random)
        var presharedKey = session.rekeyKey(shared)
        defer {
            ephemeral.wipe()
            presharedKey.wipe()
        }
        guard
            case (let message, var keys)? = responder.respond(
                ephemeral: ephemeral, presharedKey: presharedKey, payload: SharedKeys.littleEndian(local))
        else { return [] }
        defer { keys.wipe() }
        let next = TunnelSession(
            keys, isClient: false, local: local, remote: remote, createdAt: now, slot: client.id.slot)
        sessions.insert(client.id.slot, at: local)
        client.next = next
        client.rekey = ServerClient.Rekey(request: body, response: message, endpoint: client.endpoint)
        schedule(client, at: now)
        return send(session.seal(.rekeyResponse, message), to: client)
    }

    // MARK: - Requests of the driver

    /// Reserves counters for packets to a client, and returns them with the keys. To an address that is not proven, only the
    /// first packets may be sent (``AddressProof``).
    /// - Parameter byteCount: The length of a packet, by its position.
    /// - Returns: `nil` unless its login was accepted and its session is valid.
    package mutating func reserve(
        _ count: Int, to id: ClientID, at now: Instant, byteCount: (Int) -> Int
    ) -> (keys: SessionKeys, first: UInt64, count: Int, endpoint: Endpoint)? {
        guard let client = client(id), client.state == .established, client.current.isUsable(at: now) else {
            return nil
        }
        let (first, count) = client.current.reserve(client.proof.admit(count, byteCount: byteCount))
        return (client.current.keys, first, count, client.endpoint)
    }

    /// Ends a client's session, and notifies the client.
    package mutating func disconnect(_ id: ClientID, _ reason: EndReason) -> [ServerAction] {
        guard let client = client(id), client.state == .established else { return [] }
        return send(client.current.seal(.disconnect, [reason.rawValue]), to: client) + leave(client, reason)
    }
}
