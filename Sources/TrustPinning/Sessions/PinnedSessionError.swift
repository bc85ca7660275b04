// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of a request without a response.
public enum PinnedSessionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The request is not valid.
    case invalidRequest(String)
    /// The server is not trusted. No part of the request was sent.
    case untrusted(host: String, verdict: ServerVerdict)
    /// The host's name cannot be resolved, or no connection to its address can be made.
    case unreachable(String)
    /// TLS failed for a reason other than trust.
    case handshakeFailed(String)
    /// This phase took too long.
    case timedOut(TimedPhase)
    /// The connection ended before the response was complete.
    case connectionLost(String)
    /// The response is not valid HTTP/1.1.
    case invalidResponse(String)
    /// The response is longer than `limit` bytes.
    case responseTooLarge(limit: Int)
    /// The response redirects to a URL that is not permitted.
    case redirectRefused(to: String, reason: String)
    /// More than `limit` redirects followed each other.
    case tooManyRedirects(limit: Int)
    /// The source of the request's body failed, or did not provide the announced number of bytes.
    case bodyFailed(String)
    /// The task was cancelled.
    case cancelled
    /// The session was shut down.
    case sessionClosed

    /// A phase with a time limit.
    public enum TimedPhase: String, Sendable {
        /// Connecting: name lookup, TCP, TLS.
        case connect
        /// The time without any bytes sent or received.
        case idle
        /// The whole request, including redirects.
        case whole
    }

    /// The error in one line.
    public var description: String {
        switch self {
        case .invalidRequest(let reason): "the request cannot be sent: \(reason)"
        case .untrusted(let host, let verdict): "\(host) is not trusted: \(verdict.reason)"
        case .unreachable(let reason): "the server cannot be reached: \(reason)"
        case .handshakeFailed(let reason): "the TLS handshake failed: \(reason)"
        case .timedOut(.connect): "connecting to the server timed out"
        case .timedOut(.idle): "the connection was idle for too long"
        case .timedOut(.whole): "the request took too long"
        case .connectionLost(let reason): "the connection ended before the response was complete: \(reason)"
        case .invalidResponse(let reason): "the server's response is not valid: \(reason)"
        case .responseTooLarge(let limit): "the server's response is longer than \(limit) bytes"
        case .redirectRefused(let place, let reason): "the redirect to \(place) is refused: \(reason)"
        case .tooManyRedirects(let limit): "more than \(limit) redirects"
        case .bodyFailed(let reason): "the body of the request failed: \(reason)"
        case .cancelled: "the request was cancelled"
        case .sessionClosed: "the session was shut down"
        }
    }
}
