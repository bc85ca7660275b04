// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import WireGuardCore

/// One client of a server, from its hello to its end. It is never given to another.
package struct ClientID: Hashable, Sendable {
    let slot: Int32
    let generation: UInt32
}

/// What a server asks its driver to do.
package enum ServerAction: Equatable {
    /// Send this datagram there.
    case send([UInt8], to: Endpoint)
    /// Say whether this login is good, with `answer`, whenever that is known. The address of its sender is proven.
    case verify(ClientID, Body.ClientAuthRequest, from: Endpoint)
    /// The client was told that its login is good.
    case joined(ClientID)
    /// A client whose login was found good is gone: what it was given is free.
    case left(ClientID, EndReason)
    /// The client is at another address now.
    case moved(ClientID, to: Endpoint)
    /// Bytes of the datagram, opened in place, are an IP packet of this client.
    case deliver(ClientID, Range<Int>)
}

/// What the driver says of a login.
package enum LoginVerdict: Equatable {
    case accepted(Body.Assignment)
    case refused(Body.Refusal)
}

/// What a server knows of a client.
final class ServerClient {
    enum State { case pending, verifying, refused, established }

    /// What a hello is known by when it is repeated.
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
    /// When the previous session goes.
    var graceEnd: Instant?

    init(id: ClientID, endpoint: Endpoint, helloKey: HelloKey, serverHello: [UInt8], session: TunnelSession) {
        self.id = id
        self.endpoint = endpoint
        self.helloKey = helloKey
        self.serverHello = serverHello
        current = session
    }

    /// The newest session: the client is gone when that is too old.
    var expiry: Instant {
        (next ?? current).createdAt + .nanoseconds(TimerConstants.rejectAfterTime)
    }
}
