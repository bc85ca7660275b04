// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of a login.
public enum CredentialError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The server refused it, and says why.
    case refused(Body.Refusal)
    /// Nothing that counts came from the server until the deadline.
    case unreachable(Stage)
    /// The answers before the deadline did not open: the server's key or the pre-shared key differs.
    ///
    /// A single such answer has no meaning, since any host can send it.
    case keyMismatch
    /// The configured public key of the server does not permit a handshake.
    case invalidServerKey
    /// The login cannot be sent.
    case invalidLogin(PacketParsingError)
    /// The server's answer, which is authentic, cannot be read.
    case invalidResponse(PacketParsingError)

    /// The stage without an answer.
    public enum Stage: Hashable, Sendable {
        /// The handshake.
        case hello
        /// The login, after a handshake that succeeded.
        case login
    }

    /// The error and its remedy, in one line.
    public var description: String {
        switch self {
        case .refused(let refusal):
            "the server refused the login (\(refusal.reason.rawValue))\(refusal.message.isEmpty ? "" : ": ")\(refusal.message)"
        case .unreachable(.hello): "nothing answered: check the server's address and port, and whether UDP gets through"
        case .unreachable(.login): "the server answered the handshake, but not the login: try again"
        case .keyMismatch:
            "something answered, but a key does not match: compare the server's public key and the pre-shared key"
        case .invalidServerKey: "the server's public key is not valid: copy it again from the server"
        case .invalidLogin(let error): "the login cannot be sent: \(error)"
        case .invalidResponse(let error): "the server's answer cannot be read: \(error)"
        }
    }
}

/// The reason for the end of a session.
public enum EndReason: UInt8, Hashable, Sendable {
    /// The other side ended it.
    case closed = 0
    /// The server goes down.
    case shutdown = 1
    /// The server's administrator, or another login of the same user, took its place.
    case removed = 2
    /// It could not be renewed in time. This is never sent.
    case expired = 3
    /// The other side gave a reason that is not known here. This is never sent.
    case unknown = 255
}

/// The notices of a server without a key.
enum Notice: UInt8 {
    /// The hello was not made with this server's keys.
    case keyMismatch = 1
    /// There is no such session.
    case unknownSession = 2

    /// The datagram.
    func datagram(index: UInt32) -> [UInt8] {
        Header(code: .error, index: index).bytes + [rawValue] + [UInt8](repeating: 0, count: 7)
    }
}
