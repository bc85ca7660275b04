// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Carries the bytes of a request to another process, or to another part of this one, and returns the bytes of the
/// reply.
///
/// Several requests may be in progress. A channel needs no timeouts: a ``MessageClient`` cancels the waiting task.
public protocol MessageChannel: Sendable {
    /// Delivers a request and waits for the reply; returns `nil` if there is none.
    /// - Throws: A ``MessageError``, which the sender receives unchanged, or any other error, which the sender receives
    ///   as `.channelFailed`.
    func exchange(_ request: [UInt8]) async throws -> [UInt8]?
}

/// A channel that also carries a request with many answers.
public protocol SubscribableChannel: MessageChannel {
    /// Delivers a request and returns the resulting frames.
    /// - Throws: Like ``MessageChannel/exchange(_:)``.
    func open(_ request: [UInt8]) async throws -> any MessageFrames
}

/// The frames that answer a subscription, read one at a time. The other side waits while this side does not read.
public protocol MessageFrames: AnyObject, Sendable {
    /// The next frame, or `nil` if the other side has closed.
    func next() async throws -> [UInt8]?

    /// Ends the subscription: the other side stops sending, and ``next()`` returns `nil`. It may be called repeatedly.
    func cancel()
}

extension MessageError {
    /// Converts any error of a channel to the error that the sender receives.
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

    /// Converts the error of a tunnel that refused a message, in the same way for every channel: ``closed`` if no
    /// provider runs.
    package init(_ error: TunnelError) {
        self =
            switch error.code {
            case .notRunning, .closed: .closed
            case .permissionDenied: .notPermitted(error.description)
            default: .channelFailed(error.description)
            }
    }
}
