// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import WireGuardCore

/// The identity of a client, from its hello to its end. It is never reused.
package struct ClientID: Hashable, Sendable {
    let slot: Int32
    let generation: UInt32
}

/// A request of a server to its driver.
package enum ServerAction: Equatable {
    /// Send this datagram to the endpoint.
    case send([UInt8], to: Endpoint)
    /// Verify this login, and call `answer` with the verdict at any later time. The hello has proven the sender's
    /// address.
    case verify(ClientID, Body.ClientAuthRequest, from: Endpoint)
    /// Resume this login, whose ticket has this content, and call `answer` like after `verify`. No password needs to be
    /// verified.
    case resume(ClientID, Body.ClientAuthRequest, [UInt8], from: Endpoint)
    /// The server has sent the client the acceptance of its login.
    case joined(ClientID)
    /// A client with an accepted login has left: release its assignment.
    case left(ClientID, EndReason)
    /// The client has another address now.
    case moved(ClientID, to: Endpoint)
    /// These bytes of the datagram, opened in place, are an IP packet of this client.
    case deliver(ClientID, Range<Int>)
}

/// The driver's verdict on a login.
package enum LoginVerdict: Equatable {
    case accepted(Body.Assignment)
    /// The login is accepted, and the client may resume it with a ticket that has this content.
    case resumable(Body.Assignment, TicketGrant)
    /// The content of the ticket is void: verify the password.
    case notResumed
    case refused(Body.Refusal)

    /// The assignment of an accepted login.
    package var assignment: Body.Assignment? {
        switch self {
        case .accepted(let assignment), .resumable(let assignment, _): assignment
        case .notResumed, .refused: nil
        }
    }
}

/// The server's state of a client.
final class ServerClient {
    enum State { case pending, verifying, refused, established }

    /// The key by which a repeated hello is recognised.
    struct HelloKey: Hashable {
        var source: Endpoint
        var start: [UInt8]
    }

    /// The last rekey request and the response to it, so that a repeated request gets the same response.
    struct Rekey {
        var request: [UInt8]
        var response: [UInt8]
        /// The only address to which the response was sent, or `nil` if there were several.
        var endpoint: Endpoint?
    }

    let id: ClientID
    var state = State.pending
    var endpoint: Endpoint
    let helloKey: HelloKey
    /// The response to the hello.
    let serverHello: [UInt8]
    /// The response to the login; empty before the verdict.
    var response: [UInt8] = []

    /// Whether the client uses tickets.
    var wantsTicket = false
    /// The tickets of an accepted login.
    var tickets: Tickets?

    /// The data for the tickets of an accepted login.
    struct Tickets {
        let login: String
        let assignment: Body.Assignment
        let grant: TicketGrant
        /// The time at which the client got the latest ticket.
        var sentAt: Instant
    }

    /// The session for sending packets.
    var current: TunnelSession
    /// The previous session; its packets are still accepted.
    var previous: TunnelSession?
    /// A session that the client has not used yet.
    var next: TunnelSession?
    var rekey: Rekey?
    /// The time at which the previous session is removed.
    var graceEnd: Instant?
    /// The time of the last empty packet to the client.
    var lastEmptyAnswer: Instant?
    var proof: AddressProof

    init(id: ClientID, endpoint: Endpoint, helloKey: HelloKey, serverHello: [UInt8], session: TunnelSession) {
        self.id = id
        self.endpoint = endpoint
        self.helloKey = helloKey
        self.serverHello = serverHello
        current = session
        proof = AddressProof(proven: endpoint)
    }

    /// The session with this local index; `nil` if the client has none.
    func session(withLocalIndex index: UInt32) -> TunnelSession? {
        if current.keys.localIndex == index { return current }
        if let next, next.keys.localIndex == index { return next }
        if let previous, previous.keys.localIndex == index { return previous }
        return nil
    }

    /// The time at which the newest session expires, and the client is removed.
    var expiry: Instant {
        (next ?? current).createdAt + .nanoseconds(TimerConstants.rejectAfterTime)
    }
}
