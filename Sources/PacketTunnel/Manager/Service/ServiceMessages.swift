// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

// The messages of a `UnixTunnelChannel` to a `TunnelService`.

/// Asks for the tunnel's status, now and whenever it changes.
struct TunnelStatusSubscription: TunnelSubscription {
    typealias Element = TunnelStatusUpdate
    static let name = "culvert.tunnel.status"
}

/// Starts the tunnel.
struct TunnelStartMessage: TunnelMessage {
    /// The result.
    struct Reply: Codable, Sendable {
        /// The error of the start; `nil` when the tunnel is up.
        var error: TunnelError?
    }

    static let name = "culvert.tunnel.start"

    var request: TunnelStartRequest
}

/// Stops the tunnel. The reply arrives once the tunnel is down.
struct TunnelStopMessage: TunnelMessage {
    /// The reply, sent when the tunnel is down.
    struct Reply: Codable, Sendable {}

    static let name = "culvert.tunnel.stop"

    var reason: StopReason
}

/// A message for the tunnel's provider.
struct TunnelProviderMessage: TunnelMessage {
    /// The provider's reply.
    struct Reply: Codable, Sendable {
        /// The provider's answer; `nil` if the provider did not answer.
        var answer: Data?
        /// The error of a message that was not delivered.
        var error: TunnelError?
    }

    static let name = "culvert.tunnel.message"

    var message: Data
}

extension TunnelError {
    /// The error of a message to a service that did not reply.
    init(_ error: MessageError, service path: String) {
        switch error {
        case .closed: self = .noService(path)
        case .cancelled: self.init(.closed, "the task was cancelled")
        case .notPermitted(let reason):
            self.init(.permissionDenied, reason, fix: "run as the user that runs the tunnel, or as root")
        case .timeout, .handlerTimeout:
            self.init(.channelFailed, "the tunnel's service does not answer at \(path)", fix: "see its log")
        case .noHandler, .unsupportedVersion:
            self.init(
                .channelFailed, "the tunnel's service at \(path) does not know this request: \(error)",
                fix: "use the same version of Culvert on both sides")
        default: self.init(.channelFailed, "\(path): \(error)")
        }
    }

    static func noService(_ path: String) -> TunnelError {
        TunnelError(.notRunning, "no tunnel's service answers at \(path)", fix: "start the tunnel first")
    }
}
