// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Carries the bytes of a request to another process, or another part of this one, and the bytes of the reply back.
///
/// Several requests may be under way. A channel need not know time-outs: a ``MessageClient`` cancels the task that waits.
public protocol MessageChannel: Sendable {
    /// Delivers a request and waits for the reply; nil when there is none.
    /// - Throws: a ``MessageError``, which the sender gets as it is, or any other error, which becomes `.channelFailed`.
    func exchange(_ request: [UInt8]) async throws -> [UInt8]?
}

/// A channel that also carries a request with many answers.
public protocol SubscribableChannel: MessageChannel {
    /// Delivers a request and returns the frames that come back.
    /// - Throws: as ``MessageChannel/exchange(_:)``.
    func open(_ request: [UInt8]) async throws -> any MessageFrames
}

/// The frames that answer a subscription, taken one at a time. The other side waits while they are not taken.
public protocol MessageFrames: AnyObject, Sendable {
    /// The next frame; nil when the other side is gone.
    func next() async throws -> [UInt8]?

    /// Ends it: the other side stops sending, and ``next()`` gives nil. Safe to repeat.
    func cancel()
}

extension MessageError {
    /// What a sender learns of any error of a channel.
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

    /// What a sender learns of a tunnel that did not take its message, whichever way the message went: ``closed`` where there is
    /// no provider at work.
    package init(_ error: TunnelError) {
        self =
            switch error.code {
            case .notRunning, .closed: .closed
            case .permissionDenied: .notPermitted(error.description)
            default: .channelFailed(error.description)
            }
    }
}
