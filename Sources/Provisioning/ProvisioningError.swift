// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel

/// Why no tunnel was given out.
package enum ProvisioningError: Error, Hashable, Sendable {
    /// The server does not want this client.
    case refused(String)
    /// The server may answer later.
    case busy(String)
    /// A field of the reply is wrong.
    case reply(field: String, problem: String)
    /// There was no reply.
    case transport(ProvisioningTransportError)
    /// No server answered as it should within the deadline.
    case timedOut(after: Duration, last: String?)
    /// The calling task was cancelled.
    case cancelled
    /// There is no server to ask.
    case noServers

    /// Whether another server may do better.
    var concernsServerOnly: Bool {
        switch self {
        case .busy, .reply, .transport: true
        case .refused, .timedOut, .cancelled, .noServers: false
        }
    }

    /// The error that ends a start.
    package var tunnelError: TunnelError {
        switch self {
        case .refused(let reason):
            TunnelError(.authenticationFailed, reason, fix: "sign in again, so that there is a new token")
        case .busy(let reason): TunnelError(.serverUnreachable, reason, fix: "try again later")
        case .reply(let field, let problem):
            TunnelError(
                .serverUnreachable, "the server's reply cannot be used: '\(field)': \(problem)",
                fix: "choose another server, and report this one")
        case .transport(.untrusted(let reason)):
            TunnelError(
                .serverUnreachable, "what answered is not the server: \(reason)",
                fix: "do not trust this network; check the server's name and authorities")
        case .transport(.unreachable(let reason)):
            TunnelError(.serverUnreachable, "the server cannot be reached: \(reason)", fix: "check the network")
        case .transport(.tooLong(let limit)):
            TunnelError(.serverUnreachable, "the server's reply is longer than \(limit) bytes")
        case .transport(.unsupported(let reason)):
            TunnelError(.configurationInvalid, "the request cannot be sent: \(reason)")
        case .timedOut(let limit, let last):
            TunnelError(
                .serverUnreachable,
                "no server has given out a tunnel within \(limit)" + (last.map { "; last: \($0)" } ?? ""),
                fix: "check the network and the servers")
        case .cancelled: TunnelError(.stopped, "the start was given up")
        case .noServers: TunnelError(.configurationInvalid, "there is no server to ask", fix: "name one")
        }
    }
}
