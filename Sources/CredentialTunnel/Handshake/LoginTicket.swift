// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// A ticket of a client: it replaces the password check of a later login at the same server. Its secret is wiped in
/// deinit.
package final class LoginTicket: @unchecked Sendable {
    /// The user's name.
    let login: String
    /// The ticket, which only the server can open.
    let sealed: [UInt8]
    // Written in `init` only.
    private var secret: Bytes32

    /// - Parameter session: The session in which the server sent the ticket.
    init(_ sealed: [UInt8], of login: String, in session: TunnelSession) {
        self.login = login
        self.sealed = sealed
        secret = session.ticketSecret()
    }

    deinit { secret.wipe() }

    /// Returns the proof that this client received the ticket. It is valid in `session` only.
    func proof(in session: TunnelSession) -> [UInt8] {
        unsafe session.ticketProof(secret).withBytes { unsafe Array($0) }
    }
}

extension LoginTicket: CustomReflectable {
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension TunnelSession {
    private static let ticketLabel: StaticString = "Culvert credential tunnel: ticket"

    /// Returns the secret of tickets that are sent in this session. The caller wipes it.
    func ticketSecret() -> Bytes32 {
        unsafe derive(
            UnsafeRawBufferPointer(start: Self.ticketLabel.utf8Start, count: Self.ticketLabel.utf8CodeUnitCount))
    }

    /// Returns the proof, in this session, of knowing a ticket's secret.
    func ticketProof(_ secret: Bytes32) -> Bytes32 { proof(under: secret) }
}
