// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A login with the optional fields of tickets, which a server without tickets ignores.
struct TicketedLogin: BoundedBody {
    var login: Body.ClientAuthRequest
    /// The ticket; empty to request one, or `nil` from a client without tickets.
    var ticket: [UInt8]?
    /// The proof that the client received the ticket: 32 bytes, or empty without a ticket.
    var proof: [UInt8] = []

    private enum CodingKeys: String, CodingKey { case ticket, proof }

    init(_ login: Body.ClientAuthRequest, ticket: [UInt8]? = nil, proof: [UInt8] = []) {
        self.login = login
        self.ticket = ticket
        self.proof = proof
    }

    init(from decoder: any Decoder) throws {
        login = try Body.ClientAuthRequest(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        // A login with a damaged ticket is a login with its password.
        ticket = (try? container.decodeIfPresent(Data.self, forKey: .ticket)).map { [UInt8]($0) }
        proof = (try? container.decodeIfPresent(Data.self, forKey: .proof)).map { [UInt8]($0) } ?? []
    }

    func encode(to encoder: any Encoder) throws {
        try login.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(ticket.map { Data($0) }, forKey: .ticket)
        if !proof.isEmpty { try container.encode(Data(proof), forKey: .proof) }
    }

    func check() throws(PacketParsingError) { try login.check() }
}

/// A response with an optional ticket, which a client without tickets ignores.
struct TicketedResponse: BoundedBody {
    var response: Body.ServerAuthResponse
    var ticket: [UInt8]?

    private enum CodingKeys: String, CodingKey { case ticket }

    init(_ response: Body.ServerAuthResponse, ticket: [UInt8]? = nil) {
        self.response = response
        self.ticket = ticket
    }

    init(from decoder: any Decoder) throws {
        response = try Body.ServerAuthResponse(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        ticket = (try? container.decodeIfPresent(Data.self, forKey: .ticket)).map { [UInt8]($0) }
    }

    func encode(to encoder: any Encoder) throws {
        try response.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(ticket.map { Data($0) }, forKey: .ticket)
    }

    func check() throws(PacketParsingError) { try response.check() }
}
