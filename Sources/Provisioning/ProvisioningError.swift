// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// The error of a request for a tunnel, or of a device's request to its gateway.
public enum ProvisioningError: Error, Hashable, Sendable {
    /// The server refuses this client.
    case refused(String)
    /// The gateway refuses the request with a problem document, which has a code for programs
    /// (``ProblemDetails/Code``).
    case problem(ProblemDetails)
    /// The server cannot answer now, but may answer later.
    case busy(String)
    /// A field of the reply is not valid.
    case reply(field: String, problem: String)
    /// There was no reply.
    case transport(ProvisioningTransportError)
    /// No server gave a valid answer within the deadline.
    case timedOut(after: Duration, last: String?)
    /// The calling task was cancelled.
    case cancelled
    /// No server is configured.
    case noServers

    /// Whether another server may succeed.
    var concernsServerOnly: Bool {
        switch self {
        // This machine's clock is wrong, so another server would fail in the same way.
        case .transport(.clockUnset): false
        case .busy, .reply, .transport: true
        case .refused, .problem, .timedOut, .cancelled, .noServers: false
        }
    }

    /// Whether the gateway was unreachable, so that its last grant may still be valid.
    var isOutage: Bool {
        switch self {
        case .busy, .reply, .transport, .timedOut: true
        case .refused, .problem, .cancelled, .noServers: false
        }
    }

    /// The error that ends a start, with its remedy.
    public var tunnelError: TunnelError {
        switch self {
        case .refused(let reason):
            TunnelError(.authenticationFailed, reason, fix: "sign in again to get a new token")
        case .problem(let problem): problem.tunnelError
        case .busy(let reason): TunnelError(.serverUnreachable, reason, fix: "try again later")
        case .reply(let field, let problem):
            TunnelError(
                .serverUnreachable, "the server's reply is not valid: '\(field)': \(problem)",
                fix: "choose another server, and report this one")
        case .transport(let error): error.tunnelError
        case .timedOut(let limit, let last):
            TunnelError(
                .serverUnreachable,
                "no server gave a valid answer within \(limit)" + (last.map { "; last: \($0)" } ?? ""),
                fix: "check the network and the servers")
        case .cancelled: TunnelError(.stopped, "the start was cancelled")
        case .noServers: TunnelError(.configurationInvalid, "there is no server to ask", fix: "name one")
        }
    }
}

extension ProvisioningError: CustomStringConvertible {
    /// The error and its remedy.
    public var description: String { "\(tunnelError)" }
}

extension ProvisioningTransportError {
    fileprivate var tunnelError: TunnelError {
        switch self {
        case .untrusted(let reason):
            TunnelError(
                .serverUnreachable, "the host that answered is not the server: \(reason)",
                fix: "do not trust this network; check the server's name, pins and authorities")
        case .clockUnset(let reason):
            TunnelError(
                .serverUnreachable, "this machine's clock is not set: \(reason)", fix: "set the clock, and try again")
        case .unreachable(let reason):
            TunnelError(.serverUnreachable, "cannot reach the server: \(reason)", fix: "check the network")
        case .tooLong(let limit):
            TunnelError(.serverUnreachable, "the server's reply is longer than \(limit) bytes")
        case .unsupported(let reason):
            TunnelError(.configurationInvalid, "cannot send the request: \(reason)")
        }
    }
}

extension ProblemDetails {
    /// The gateway's reason.
    private var reason: String { detail ?? (title.isEmpty ? "HTTP \(status)" : title) }

    fileprivate var tunnelError: TunnelError {
        func refused(_ fix: String) -> TunnelError {
            TunnelError(.authenticationFailed, "the gateway refused: \(reason)", fix: fix)
        }
        return switch code {
        case .unauthorized?: refused("ask for a new invitation, and enrol again")
        case .invitationUsed?:
            refused("if another device of yours used it, ask for another one; otherwise inform the administrator")
        case .invitationExpired?: refused("ask for a new invitation")
        case .deviceLimit?: refused("revoke an unused device, or ask for more devices")
        case .keyInUse?: refused("enrol again, with a new key")
        case .deviceUnknown?: refused("the device was revoked; ask for an invitation to enrol it again")
        case .deviceDisabled?: refused("ask the administrator to enable the device")
        case .deviceExpired?: refused("ask the administrator, or enrol again with a new invitation")
        case .poolFull?:
            TunnelError(.serverUnreachable, "the gateway has no free address", fix: "inform the administrator")
        default: refused("ask the administrator")
        }
    }
}
