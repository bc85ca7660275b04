// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Why a request has no answer.
public enum PinnedSessionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The request cannot be sent as it is.
    case invalidRequest(String)
    /// The server is not the one it should be. Nothing of the request was sent.
    case untrusted(host: String, verdict: ServerVerdict)
    /// The host's address cannot be found, or nothing answers there.
    case unreachable(String)
    /// TLS failed for a reason other than trust.
    case handshakeFailed(String)
    /// The time for this is over.
    case timedOut(TimedPhase)
    /// The connection ended before the answer was complete.
    case connectionLost(String)
    /// The answer is not HTTP/1.1 as it should be.
    case invalidResponse(String)
    /// The answer is longer than allowed, in bytes.
    case responseTooLarge(limit: Int)
    /// The answer sends the request to a place where it may not go.
    case redirectRefused(to: String, reason: String)
    /// Each answer sent the request elsewhere, this many times.
    case tooManyRedirects(limit: Int)
    /// The source of the request's body failed, or gave another number of bytes than was announced.
    case bodyFailed(String)
    /// The task was cancelled.
    case cancelled
    /// The session was shut down.
    case sessionClosed

    /// What took too long.
    public enum TimedPhase: String, Sendable {
        /// Connecting: name lookup, TCP, TLS.
        case connect
        /// Nothing was sent or received.
        case idle
        /// All of the request, redirects included.
        case whole
    }

    /// The error in one line.
    public var description: String {
        switch self {
        case .invalidRequest(let reason): "the request cannot be sent: \(reason)"
        case .untrusted(let host, let verdict): "\(host) is not trusted: \(verdict.reason)"
        case .unreachable(let reason): "the server cannot be reached: \(reason)"
        case .handshakeFailed(let reason): "the TLS handshake failed: \(reason)"
        case .timedOut(.connect): "the server did not answer in the time for connecting"
        case .timedOut(.idle): "the connection stood still for too long"
        case .timedOut(.whole): "the request took longer than it may"
        case .connectionLost(let reason): "the connection ended before the answer was complete: \(reason)"
        case .invalidResponse(let reason): "the server's answer is not valid: \(reason)"
        case .responseTooLarge(let limit): "the server's answer is longer than \(limit) bytes"
        case .redirectRefused(let place, let reason): "the redirect to \(place) is refused: \(reason)"
        case .tooManyRedirects(let limit): "more than \(limit) redirects"
        case .bodyFailed(let reason): "the body of the request failed: \(reason)"
        case .cancelled: "the request was cancelled"
        case .sessionClosed: "the session was shut down"
        }
    }
}
