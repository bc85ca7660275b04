// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

extension CredentialClient {
    // MARK: - Datagrams

    /// Handles a datagram, and opens it in place. A datagram that is for another client or is not authentic has no
    /// effect.
    ///
    /// Use this for single datagrams. For batches, a transport calls ``session(receiving:)``,
    /// ``MessageDecoder/openInPlace(_:_:keys:)`` and ``commit(_:to:at:)``.
    package mutating func received(_ datagram: UnsafeMutableRawBufferPointer, at now: Instant) -> [ClientAction] {
        guard let header = try? unsafe MessageDecoder.header(of: UnsafeRawBufferPointer(datagram)) else { return [] }
        switch header.code {
        case .serverHello: return unsafe receivedHello(Array(datagram), index: header.index, at: now)
        case .cookie: return unsafe receivedCookie(Array(datagram), index: header.index, at: now)
        case .error: return unsafe receivedNotice(datagram[Layout.Notice.kind], index: header.index, at: now)
        case .serverAuthResponse, .data, .rekeyResponse, .disconnect: break
        case .clientHello, .clientAuthRequest, .rekeyRequest: return []
        }
        guard let session = session(receiving: header.index), session.isUsable(at: now),
            let range = unsafe MessageDecoder.openInPlace(header, datagram, keys: session.keys),
            var actions = commit(header, to: session, at: now)
        else { return [] }
        switch header.code {
        case .data: if isEstablished, !range.isEmpty { actions.append(.deliver(range)) }
        case .serverAuthResponse: actions += unsafe receivedResponse(Array(datagram[range]), in: session, at: now)
        case .rekeyResponse: actions += unsafe receivedRekey(Array(datagram[range]), in: session, at: now)
        case .disconnect:
            if isEstablished {
                actions += end(unsafe EndReason(rawValue: datagram[range.lowerBound]) ?? .unknown)
            }
        default: break
        }
        return actions
    }

    /// Returns the session of datagrams with this index.
    package func session(receiving index: UInt32) -> TunnelSession? {
        if let current, current.keys.localIndex == index { return current }
        if let previous, previous.keys.localIndex == index { return previous }
        return nil
    }

    /// Records an opened datagram.
    /// - Returns: The actions, or `nil` if the datagram was received before and must be dropped.
    package mutating func commit(_ header: Header, to session: TunnelSession, at now: Instant) -> [ClientAction]? {
        guard session.accept(header.counter) else { return nil }
        proofDeadline = nil
        if owedSince != nil { expectAnswer(since: nil) }
        if confirmation != nil, session === current {
            // The server uses the new key, so datagrams under the old key arrive within the grace time or not at all.
            confirmation = nil
            graceEnd = now + timing.grace
        }
        return []
    }

    /// Reserves counters for packets to send, and returns them with the keys.
    /// - Returns: `nil` unless the login was accepted and the session is valid.
    package mutating func reserve(
        _ count: Int, at now: Instant
    ) -> (keys: SessionKeys, first: UInt64, count: Int)? {
        guard isEstablished, let current, current.isUsable(at: now) else { return nil }
        lastSent = now
        recordSent(at: now)
        let (first, count) = current.reserve(count)
        return (current.keys, first, count)
    }

    // MARK: - Rekey

    private func wantsRekey(_ session: TunnelSession) -> Bool {
        max(session.sendCounter, session.receivedCount) >= timing.rekeyAfterMessages
    }

    var sessionDeadlines: [Instant?] {
        guard let current else { return [] }
        var times = [
            confirmation?.next, graceEnd, proofDeadline,
            current.createdAt + .nanoseconds(TimerConstants.rejectAfterTime),
        ]
        if let rekey {
            times.append(rekey.retransmission.next)
        } else {
            times.append(wantsRekey(current) ? current.createdAt : current.createdAt + timing.rekeyAfter)
        }
        if let keepalive, let lastSent { times.append(lastSent + keepalive) }
        if let owedSince { times.append(owedSince + (hasPinged ? timing.doubtAfter : timing.pingAfter)) }
        return times
    }

    mutating func sessionDeadlineReached(at now: Instant) -> [ClientAction] {
        guard let current, current.isUsable(at: now) else { return end(.expired) }
        var actions: [ClientAction] = []
        if let proofDeadline, proofDeadline <= now {
            self.proofDeadline = nil
            actions.append(.mayBeUnknown)
        }
        if let graceEnd, graceEnd <= now {
            previous = nil
            self.graceEnd = nil
        }
        var pings = false
        if let owedSince, owedSince + timing.doubtAfter <= now {
            // The server may have lost the session, and its notices may be lost too.
            actions += doubt(at: now)
        } else if let owedSince, !hasPinged, owedSince + timing.pingAfter <= now {
            hasPinged = true
            pings = true
        }
        if rekey != nil {
            if rekey?.retransmission.isDue(at: now) == true { actions += sendRekey(at: now) }
        } else if wantsRekey(current) || current.createdAt + timing.rekeyAfter <= now {
            actions += beginRekey(current, at: now)
        }
        let confirms = confirmation?.isDue(at: now) == true
        let isSilent = if let keepalive, let lastSent { lastSent + keepalive <= now } else { false }
        if confirms || isSilent || pings { actions += sendEmpty(at: now) }
        return actions
    }

    /// Begins to renew the keys. The request informs the server of the client's address, and the response proves that
    /// packets arrive in both directions.
    mutating func renew(at now: Instant) -> [ClientAction] {
        guard isEstablished, let current, current.isUsable(at: now) else { return [] }
        return rekey == nil ? beginRekey(current, at: now) : sendRekey(at: now)
    }

    /// Asks the server whether it knows the session: a server that does responds to the renewal of the keys. Without a
    /// response, ``ClientAction/mayBeUnknown`` follows. Another login instead would cost the server a password check.
    mutating func doubt(at now: Instant) -> [ClientAction] {
        // Another doubt before the deadline does not postpone it.
        if proofDeadline == nil { proofDeadline = now + Self.proofTimeout }
        expectAnswer(since: now)
        return renew(at: now)
    }

    private mutating func sendEmpty(at now: Instant) -> [ClientAction] {
        lastSent = now
        recordSent(at: now)
        return current?.seal(.data).map { [.send($0)] } ?? []
    }

    private mutating func beginRekey(_ session: TunnelSession, at now: Instant) -> [ClientAction] {
        var index = randomIndex()
        while self.session(receiving: index) != nil { index = randomIndex() }
        var ephemeral = Bytes32(random: &random)
        defer { ephemeral.wipe() }
        guard
            let noise = NoiseInitiator(
                prologue: SharedKeys.prologue(rekeyTo: index), server: shared.server, ephemeral: ephemeral, payload: [])
        else { return [] }
        rekey = Rekey(noise: noise, index: index, session: session, retransmission: Retransmission(at: now))
        return sendRekey(at: now)
    }

    private mutating func sendRekey(at now: Instant) -> [ClientAction] {
        guard let rekey else { return [] }
        recordSent(at: now)
        let body = SharedKeys.littleEndian(rekey.index) + rekey.noise.message
        return rekey.session.seal(.rekeyRequest, body).map { [.send($0)] } ?? []
    }

    private mutating func receivedRekey(
        _ body: [UInt8], in session: TunnelSession, at now: Instant
    ) -> [ClientAction] {
        guard isEstablished, let rekey, rekey.session === session else { return [] }
        var presharedKey = session.rekeyKey(shared)
        defer { presharedKey.wipe() }
        guard case (let payload, var keys)? = rekey.noise.finish(body, presharedKey: presharedKey) else { return [] }
        defer { keys.wipe() }
        self.rekey = nil
        rekeys += 1
        previous = current
        graceEnd = nil
        current = TunnelSession(
            keys, isClient: true, local: rekey.index, remote: SharedKeys.index(payload), createdAt: now)
        confirmation = Retransmission(at: now)
        return sendEmpty(at: now)
    }
}
