// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of a login.
public enum CredentialError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The server refused the login, for this reason.
    case refused(Body.Refusal)
    /// No valid response arrived from the server before the deadline.
    case unreachable(Stage)
    /// Only responses that cannot be opened arrived before the deadline: the server's key or the pre-shared key
    /// differs.
    ///
    /// A single response that cannot be opened does not end the login, since anyone can send it.
    case keyMismatch
    /// The configured public key of the server is not valid for a handshake.
    case invalidServerKey
    /// The login exceeds its bounds.
    case invalidLogin(PacketParsingError)
    /// The server's authentic response cannot be read.
    case invalidResponse(PacketParsingError)

    /// The stage without a response.
    public enum Stage: Hashable, Sendable {
        /// The handshake.
        case hello
        /// The login, after a successful handshake.
        case login
    }

    /// The problem and its remedy, in one line.
    public var description: String {
        switch self {
        case .refused(let refusal):
            "the server refused the login (\(refusal.reason.rawValue))\(refusal.message.isEmpty ? "" : ": ")\(refusal.message)"
        case .unreachable(.hello):
            "no response from the server: check its address and port, and whether UDP packets reach it"
        case .unreachable(.login): "the server responded to the handshake, but not to the login: try again"
        case .keyMismatch:
            "a response arrived, but a key does not match: compare the server's public key and the pre-shared key"
        case .invalidServerKey: "the server's public key is not valid: copy it again from the server"
        case .invalidLogin(let error): "the login cannot be sent: \(error)"
        case .invalidResponse(let error): "the server's response cannot be read: \(error)"
        }
    }
}

/// The reason for the end of a session.
public enum EndReason: UInt8, Hashable, Sendable {
    /// The other side ended the session.
    case closed = 0
    /// The server shuts down.
    case shutdown = 1
    /// The server's administrator, or another login of the same user, ended the session.
    case removed = 2
    /// The session was not renewed in time. Never sent.
    case expired = 3
    /// The user's password was changed or removed.
    case passwordChanged = 4
    /// The other side sent an unknown reason. Never sent.
    case unknown = 255
}

/// An unauthenticated notice of a server.
enum Notice: UInt8 {
    /// The hello was not made with this server's keys.
    case keyMismatch = 1
    /// The session does not exist.
    case unknownSession = 2

    /// The datagram.
    func datagram(index: UInt32) -> [UInt8] {
        Header(code: .error, index: index).bytes + [rawValue] + [UInt8](repeating: 0, count: 7)
    }
}
