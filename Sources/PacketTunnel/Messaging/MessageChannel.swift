// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Carries the bytes of a request to another process, or another part of this one, and the bytes of the reply back.
///
/// Several requests may be under way. A channel need not know time-outs: a ``MessageClient`` cancels the task that waits.
public protocol MessageChannel: Sendable {
    /// Delivers a request and waits for the reply; returns `nil` if there is none.
    /// - Throws: A ``MessageError``, which the sender gets unchanged, or any other error, which becomes `.channelFailed`.
    func exchange(_ request: [UInt8]) async throws -> [UInt8]?
}

/// A channel that also carries a request with many answers.
public protocol SubscribableChannel: MessageChannel {
    /// Delivers a request and returns the resulting frames.
    /// - Throws: Like ``MessageChannel/exchange(_:)``.
    func open(_ request: [UInt8]) async throws -> any MessageFrames
}

/// The frames that answer a subscription, taken one at a time. The other side waits while they are not taken.
public protocol MessageFrames: AnyObject, Sendable {
    /// The next frame, or `nil` if the other side has closed.
    func next() async throws -> [UInt8]?

    /// Ends it: the other side stops sending, and ``next()`` gives nil. Safe to repeat.
    func cancel()
}

extension MessageError {
    /// Converts any error of a channel for the sender.
    init(ofChannel error: any Error) {
        switch error {
        case let error as MessageError: self = error
        case let error as TunnelError: self.init(error)
        case is CancellationError: self = .cancelled
        default: self = .channelFailed(String(describing: error))
        }
    }

    /// The error that a sender receives for an error of ``MessageRouter/otherwise(_:)``.
    init(ofHandler error: any Error) {
        switch error {
        case let error as MessageError: self = error
        case let error as TunnelError where [.notRunning, .closed, .permissionDenied].contains(error.code):
            self.init(error)
        default: self = .handlerFailed(HandlerFailure(of: error))
        }
    }

    /// Converts the error of a tunnel that refused a message, the same for each channel: ``closed`` if no provider runs.
    package init(_ error: TunnelError) {
        self =
            switch error.code {
            case .notRunning, .closed: .closed
            case .permissionDenied: .notPermitted(error.description)
            default: .channelFailed(error.description)
            }
    }
}
