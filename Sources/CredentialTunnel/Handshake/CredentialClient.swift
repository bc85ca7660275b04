// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

/// A request of a client to its driver.
package enum ClientAction: Equatable {
    /// Send this datagram to the server.
    case send([UInt8])
    /// The login was accepted: apply this assignment. Sent once.
    case established(Body.Assignment)
    /// These bytes of the datagram, opened in place, are an IP packet.
    case deliver(Range<Int>)
    /// The server may have lost the session, or cannot be reached: begin another while this one continues.
    case mayBeUnknown
    /// The login failed. This is the last action.
    case failed(CredentialError)
    /// The session has ended. This is the last action.
    case ended(EndReason)
}

/// The client's state machine for one login and its session. Bytes, time and randomness are input; actions are output.
///
/// It has no clock, socket or thread. Call ``deadlineReached(at:)`` at ``nextDeadline``.
package struct CredentialClient: ~Copyable {
    /// The configuration of a client.
    package struct Configuration: Sendable {
        package var keys: SharedKeys
        package var login: Body.ClientAuthRequest
        package var timing = SessionTiming()
        /// The ticket of an earlier login, which is used if it has the same name.
        package var ticket: LoginTicket?

        package init(keys: SharedKeys, login: Body.ClientAuthRequest) {
            self.keys = keys
            self.login = login
        }
    }

    enum Phase { case idle, hello, login, established, over }

    /// A key renewal that waits for the server's response.
    struct Rekey {
        var noise: NoiseInitiator
        var index: UInt32
        /// The session whose keys are renewed.
        var session: TunnelSession
        var retransmission: Retransmission
    }

    let shared: SharedKeys
    let timing: SessionTiming
    var random: any RandomNumberGenerator
    private(set) var phase = Phase.idle

    // State until the server's hello arrives.
    private var noise: NoiseInitiator?
    private var helloIndex: UInt32 = 0
    private var jar = CookieJar()

    // State until the server has answered the login.
    private var login: Body.ClientAuthRequest
    private let user: String
    /// The latest ticket that the server sent.
    package private(set) var ticket: LoginTicket?
    private var loginBody: [UInt8] = []
    private var retransmission: Retransmission?
    private var giveUpAt: Instant?
    /// Whether a response arrived that cannot be opened.
    private var sawMismatch = false
    /// Whether the handshake was repeated since the server no longer knew it.
    private var hasRepeatedHandshake = false

    // State after the server's hello.
    var current: TunnelSession?
    /// The session before the current one; its packets are still accepted.
    var previous: TunnelSession?
    var rekey: Rekey?
    /// The number of key renewals.
    var rekeys = 0
    /// Repeats an empty packet under a new key, until the server uses that key.
    var confirmation: Retransmission?
    /// The time at which the previous session is removed.
    var graceEnd: Instant?
    var keepalive: Duration?
    var lastSent: Instant?
    /// The time of the first datagram of the session without an authentic datagram of the server after it.
    private(set) var owedSince: Instant?
    /// Whether the client has sent an empty packet because of that.
    var hasPinged = false
    var lastHint: Instant?
    /// The deadline for an authentic datagram of the server, after a question whether it has lost the session.
    var proofDeadline: Instant?

    package init(_ configuration: Configuration, random: some RandomNumberGenerator) {
        shared = configuration.keys
        timing = configuration.timing
        login = configuration.login
        user = configuration.login.login
        ticket = configuration.ticket
        self.random = random
    }

    /// Whether packets may be sent.
    package var isEstablished: Bool { phase == .established }

    /// Whether the server has not responded to the handshake yet, not even with a cookie.
    func awaitsResponse(at now: Instant) -> Bool { phase == .hello && !jar.hasCookie(at: now) }

    /// The time for the server to send an authentic datagram after a question whether it has lost the session.
    static let proofTimeout = Duration.seconds(2)

    // MARK: - Handshake and login

    /// Begins the login. Call it once.
    package mutating func start(at now: Instant) -> [ClientAction] {
        guard phase == .idle else { return [] }
        do throws(PacketParsingError) {
            loginBody = try MessageEncoder.encode(login)
        } catch {
            return fail(.invalidLogin(error))
        }
        return startHandshake(at: now)
    }

    private mutating func startHandshake(at now: Instant) -> [ClientAction] {
        helloIndex = randomIndex()
        sawMismatch = false
        var ephemeral = Bytes32(random: &random)
        defer { ephemeral.wipe() }
        noise = NoiseInitiator(
            prologue: SharedKeys.prologue(hello: Header(code: .clientHello, index: helloIndex)), server: shared.server,
            ephemeral: ephemeral, payload: [UInt8](repeating: 0, count: Layout.ClientHello.payloadByteCount))
        guard noise != nil else { return fail(.invalidServerKey) }
        phase = .hello
        giveUpAt = now + timing.loginDeadline
        retransmission = Retransmission(at: now)
        return sendHello(at: now)
    }

    /// Sends the hello. Repetitions are identical, so that a delayed response to an earlier one can still be opened.
    private mutating func sendHello(at now: Instant) -> [ClientAction] {
        guard let noise else { return [] }
        var hello = Header(code: .clientHello, index: helloIndex).bytes + noise.message
        hello += [UInt8](repeating: 0, count: 32)
        unsafe hello.withUnsafeMutableBytes { unsafe jar.writeMACs(into: $0, mac1Key: shared.mac1Key, at: now) }
        return [.send(hello)]
    }

    private func sendLogin() -> [ClientAction] {
        current?.seal(.clientAuthRequest, loginBody).map { [.send($0)] } ?? []
    }

    mutating func receivedHello(_ message: [UInt8], index: UInt32, at now: Instant) -> [ClientAction] {
        guard phase == .hello, index == helloIndex, let noise else { return [] }
        guard
            case (let payload, var keys)? = noise.finish(
                Array(message[Layout.ServerHello.noise...]), presharedKey: shared.presharedKey)
        else {
            sawMismatch = true
            return []
        }
        defer { keys.wipe() }
        current = TunnelSession(
            keys, isClient: true, local: helloIndex, remote: SharedKeys.index(payload), createdAt: now)
        self.noise = nil
        jar.forget()
        addTicket()
        phase = .login
        retransmission = Retransmission(at: now)
        return sendLogin()
    }

    /// Adds the ticket of an earlier login to the login, or the request for one. The login also has the password, in
    /// case the server refuses the ticket. A login that has no room for a ticket is sent without it.
    private mutating func addTicket() {
        guard let current else { return }
        let body =
            if let ticket, ticket.login == user {
                TicketedLogin(login, ticket: ticket.sealed, proof: ticket.proof(in: current))
            } else {
                TicketedLogin(login, ticket: [])
            }
        guard let encoded = try? MessageEncoder.encode(body) else { return }
        unsafe loginBody.withUnsafeMutableBytes { unsafe wipe($0) }
        loginBody = encoded
    }

    mutating func receivedCookie(_ message: [UInt8], index: UInt32, at now: Instant) -> [ClientAction] {
        guard phase == .hello, index == helloIndex else { return [] }
        let hadCookie = jar.hasCookie(at: now)
        let isAuthentic = unsafe message.withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return false }
            return unsafe jar.accept(reply: base, cookieKey: shared.cookieKey, at: now)
        }
        guard isAuthentic else {
            // The response to an earlier copy of the hello may arrive after a cookie.
            if !hadCookie { sawMismatch = true }
            return []
        }
        // Use a further cookie only for the next repetition, so that copies of a cookie cause no additional hellos.
        return hadCookie ? [] : sendHello(at: now)
    }

    mutating func receivedNotice(_ notice: UInt8, index: UInt32, at now: Instant) -> [ClientAction] {
        switch (Notice(rawValue: notice), phase) {
        case (.keyMismatch, .hello) where index == helloIndex:
            sawMismatch = true
            return []
        case (.unknownSession, .login) where index == current?.keys.remoteIndex && !hasRepeatedHandshake:
            // The server was started again after its hello. Once only, since a notice is not authentic.
            hasRepeatedHandshake = true
            current = nil
            return startHandshake(at: now)
        case (.unknownSession, .established) where index == current?.keys.remoteIndex:
            if let lastHint, now < lastHint + .seconds(5) { return [] }
            lastHint = now
            return doubt(at: now)
        default: return []
        }
    }

    mutating func receivedResponse(
        _ body: [UInt8], in session: TunnelSession, at now: Instant
    ) -> [ClientAction] {
        if phase == .established {
            // A later response only renews the ticket.
            adoptTicket(of: try? MessageDecoder.ticketedResponse(body), in: session)
            return []
        }
        guard phase == .login else { return [] }
        let response: TicketedResponse
        do throws(PacketParsingError) {
            response = try MessageDecoder.ticketedResponse(body)
        } catch {
            return fail(.invalidResponse(error))
        }
        switch response.response {
        case .refused(let refusal): return fail(.refused(refusal))
        case .accepted(let assignment):
            phase = .established
            adoptTicket(of: response, in: session)
            forgetLogin()
            keepalive = assignment.keepalive > 0 ? .seconds(assignment.keepalive) : nil
            lastSent = now
            return [.established(assignment)]
        }
    }

    private mutating func adoptTicket(of response: TicketedResponse?, in session: TunnelSession) {
        guard let sealed = response?.ticket, !sealed.isEmpty else { return }
        ticket = LoginTicket(sealed, of: user, in: session)
    }

    // MARK: - Time and the end

    /// The time to call ``deadlineReached(at:)``, or `nil` if no timer runs.
    package var nextDeadline: Instant? {
        var times = [retransmission?.next, giveUpAt]
        if phase == .established { times += sessionDeadlines }
        return times.compactMap(\.self).min()
    }

    /// Performs the due actions. An early call has no effect.
    package mutating func deadlineReached(at now: Instant) -> [ClientAction] {
        switch phase {
        case .idle, .over: return []
        case .established: return sessionDeadlineReached(at: now)
        case .hello, .login:
            if let giveUpAt, giveUpAt <= now {
                return fail(phase == .login ? .unreachable(.login) : sawMismatch ? .keyMismatch : .unreachable(.hello))
            }
            guard retransmission?.isDue(at: now) == true else { return [] }
            return phase == .hello ? sendHello(at: now) : sendLogin()
        }
    }

    /// Ends the session, and notifies the server.
    package mutating func close() -> [ClientAction] {
        guard phase != .over else { return [] }
        let farewell = phase == .established ? current?.seal(.disconnect, [EndReason.closed.rawValue]) : nil
        forgetAll()
        return farewell.map { [.send($0)] } ?? []
    }

    mutating func end(_ reason: EndReason) -> [ClientAction] {
        forgetAll()
        return [.ended(reason)]
    }

    private mutating func fail(_ error: CredentialError) -> [ClientAction] {
        forgetAll()
        return [.failed(error)]
    }

    private mutating func forgetAll() {
        phase = .over
        forgetLogin()
        noise = nil
        jar.forget()
        current = nil
        previous = nil
        rekey = nil
        confirmation = nil
        proofDeadline = nil
        owedSince = nil
    }

    /// Records that a datagram of the session is sent, which the server must answer.
    mutating func recordSent(at now: Instant) {
        if owedSince == nil { expectAnswer(since: now) }
    }

    /// Starts the time within which the server must answer, or ends it.
    mutating func expectAnswer(since start: Instant?) {
        owedSince = start
        hasPinged = false
    }

    /// Overwrites the password's bytes. Copies that Swift has made cannot be overwritten.
    private mutating func forgetLogin() {
        unsafe loginBody.withUnsafeMutableBytes { unsafe wipe($0) }
        loginBody = []
        login = Body.ClientAuthRequest(login: "", password: "")
        retransmission = nil
        giveUpAt = nil
    }

    mutating func randomIndex() -> UInt32 {
        UInt32(truncatingIfNeeded: random.next() as UInt64)
    }
}
