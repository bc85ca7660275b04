// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import WireGuardCore

/// One client of a server, from its hello to its end. It is never given to another.
package struct ClientID: Hashable, Sendable {
    let slot: Int32
    let generation: UInt32
}

/// The actions that a server requests of its driver.
package enum ServerAction: Equatable {
    /// Send this datagram there.
    case send([UInt8], to: Endpoint)
    /// Say whether this login is good, with `answer`, whenever that is known. The address of its sender is proven.
    case verify(ClientID, Body.ClientAuthRequest, from: Endpoint)
    /// The client was notified that its login was accepted.
    case joined(ClientID)
    /// A client with an accepted login has left: its assignment is free.
    case left(ClientID, EndReason)
    /// The client is at another address now.
    case moved(ClientID, to: Endpoint)
    /// Bytes of the datagram, opened in place, are an IP packet of this client.
    case deliver(ClientID, Range<Int>)
}

/// The driver's verdict on a login.
package enum LoginVerdict: Equatable {
    case accepted(Body.Assignment)
    case refused(Body.Refusal)
}

/// The server's state of a client.
final class ServerClient {
    enum State { case pending, verifying, refused, established }

    /// The fields that identify a repeated hello.
    struct HelloKey: Hashable {
        var source: Endpoint
        var start: [UInt8]
    }

    /// The rekey that was answered last, so that its repetition gets the same answer.
    struct Rekey {
        var request: [UInt8]
        var response: [UInt8]
    }

    let id: ClientID
    var state = State.pending
    var endpoint: Endpoint
    let helloKey: HelloKey
    /// The answer to the hello.
    let serverHello: [UInt8]
    /// The answer to the login, once there is one.
    var response: [UInt8] = []

    /// The session that packets are sent under.
    var current: TunnelSession
    /// The session before; packets under it still count.
    var previous: TunnelSession?
    /// A session that the client has not used yet.
    var next: TunnelSession?
    var rekey: Rekey?
    /// The time when the previous session is removed.
    var graceEnd: Instant?

    init(id: ClientID, endpoint: Endpoint, helloKey: HelloKey, serverHello: [UInt8], session: TunnelSession) {
        self.id = id
        self.endpoint = endpoint
        self.helloKey = helloKey
        self.serverHello = serverHello
        current = session
    }

    /// The newest session's expiry, at which the client is removed.
    var expiry: Instant {
        (next ?? current).createdAt + .nanoseconds(TimerConstants.rejectAfterTime)
    }
}
