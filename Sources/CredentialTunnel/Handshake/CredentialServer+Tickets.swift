// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

extension CredentialServer {
    /// Returns the content of a login's ticket, or `nil` if there is no valid ticket with the proof of this session.
    func resumption(of request: TicketedLogin, in session: TunnelSession) -> [UInt8]? {
        guard let tickets, let ticket = request.ticket,
            case (var secret, let content)? = tickets.open(ticket, login: request.login.login)
        else { return nil }
        var expected = session.ticketProof(secret)
        defer {
            secret.wipe()
            expected.wipe()
        }
        let isProven = unsafe expected.withBytes { expected in
            unsafe request.proof.withUnsafeBytes { unsafe constantTimeEqual($0, expected) }
        }
        return isProven ? content : nil
    }

    /// Returns a new ticket for a client, which is valid with the secret of `session`.
    mutating func newTicket(_ data: ServerClient.Tickets, in session: TunnelSession) -> [UInt8]? {
        guard let tickets else { return nil }
        var secret = session.ticketSecret()
        defer { secret.wipe() }
        return tickets.seal(data.grant, secret: secret, login: data.login, random: &random)
    }

    /// Returns a datagram with a new ticket, or `nil` if the client does not need one yet.
    mutating func ticketRenewal(_ client: ServerClient, _ session: TunnelSession, at now: Instant) -> [UInt8]? {
        guard let data = client.tickets, data.sentAt + limits.ticketGap <= now,
            let ticket = newTicket(data, in: session),
            let response = try? MessageEncoder.encode(.accepted(data.assignment), ticket: ticket)
        else { return nil }
        client.tickets?.sentAt = now
        return session.seal(.serverAuthResponse, response)
    }
}
