// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Why a message got no reply, as its sender learns it.
public enum MessageError: Error, Hashable, Sendable {
    /// Whose bytes were too many.
    public enum Direction: String, Hashable, Sendable {
        /// The request's.
        case request
        /// The reply's.
        case reply
    }

    /// No reply came in time. A reply that comes later is dropped.
    case timeout
    /// The other side's handler took longer than that side allows.
    case handlerTimeout
    /// The sending task was cancelled.
    case cancelled
    /// The tunnel, or whoever answers for it, is not there or went away.
    case closed
    /// The channel delivered the message and gave nothing back.
    case noReply
    /// The other side has as many requests or clients as it takes.
    case busy
    /// Nobody answers messages of this name.
    case noHandler(name: String)
    /// Messages of this name are answered, but not in this version.
    case unsupportedVersion(name: String, version: UInt16, supported: [UInt16])
    /// The handler threw.
    case handlerFailed(HandlerFailure)
    /// The other side could not read the message.
    case undecodableMessage(String)
    /// The reply is not what the message's type says.
    case undecodableReply(String)
    /// The message cannot be written as JSON.
    case unencodableMessage(String)
    /// The request or its reply has more bytes than is allowed.
    case tooLarge(Direction, byteCount: Int, limit: Int)
    /// The other side, or the system, does not let this process talk to it.
    case notPermitted(String)
    /// The other side answers single messages only.
    case subscriptionsUnsupported
    /// The channel failed in another way.
    case channelFailed(String)
}

/// What a handler threw, as far as it can be told across processes.
public struct HandlerFailure: Error, Hashable, Sendable, Codable {
    /// A code for programs; `failed` when the handler's error has none.
    public var code: String
    /// A text for people, without secrets.
    public var message: String

    /// The code of errors that have none.
    public static let unspecifiedCode = "failed"

    /// A failure. A handler may throw it itself.
    public init(code: String = unspecifiedCode, message: String) {
        self.code = code
        self.message = message
    }
}

/// An error with a code that the other process can act on.
public protocol HandlerFailureConvertible: Error {
    /// What to tell the other process.
    var handlerFailure: HandlerFailure { get }
}

extension HandlerFailure: HandlerFailureConvertible {
    /// Itself.
    public var handlerFailure: HandlerFailure { self }

    /// What to tell of any error. Keys and tokens in its text are taken out.
    init(of error: any Error) {
        let told =
            (error as? any HandlerFailureConvertible)?.handlerFailure
            ?? HandlerFailure(message: String(describing: error))
        self.init(code: told.code, message: Redactor.redact(told.message))
    }
}

extension MessageError: CustomStringConvertible {
    /// What happened, with which message.
    public var description: String {
        switch self {
        case .timeout: "no reply came in time"
        case .handlerTimeout: "the tunnel took too long to answer"
        case .cancelled: "cancelled"
        case .closed: "the tunnel is not running"
        case .noReply: "the tunnel gave no reply: its provider has no 'handleAppMessage(_:)' that answers"
        case .busy: "the tunnel has too many requests to answer"
        case .noHandler(let name): "the tunnel does not answer '\(name)'"
        case .unsupportedVersion(let name, let version, let supported):
            "the tunnel does not answer version \(version) of '\(name)', only \(supported.map(String.init).joined(separator: ", "))"
        case .handlerFailed(let failure): failure.message
        case .undecodableMessage(let reason): "the tunnel could not read the message: \(reason)"
        case .undecodableReply(let reason): "the reply could not be read: \(reason)"
        case .unencodableMessage(let reason): "the message could not be written: \(reason)"
        case .tooLarge(let direction, let byteCount, let limit):
            "the \(direction.rawValue) has \(byteCount) bytes, more than the limit of \(limit)"
        case .notPermitted(let reason): "not permitted: \(reason)"
        case .subscriptionsUnsupported: "the tunnel answers no subscriptions"
        case .channelFailed(let reason): reason
        }
    }
}

// MARK: - On the wire

/// A ``MessageError`` as the payload of a container; unknown codes of later versions stay readable.
struct WireError: Codable {
    var code: String
    var message: String?
    var name: String?
    var version: UInt16?
    var supported: [UInt16]?
    var byteCount: Int?
    var limit: Int?

    /// The error to send: those that only a sender can have are told as failures.
    init(_ error: MessageError) {
        switch error {
        case .handlerTimeout: code = "handler-timeout"
        case .busy: code = "busy"
        case .cancelled: code = "cancelled"
        case .closed: code = "closed"
        case .noHandler(let name):
            code = "no-handler"
            self.name = name
        case .unsupportedVersion(let name, let version, let supported):
            code = "unsupported-version"
            self.name = name
            self.version = version
            self.supported = supported
        case .handlerFailed(let failure):
            code = "handler-failed"
            name = failure.code
            message = failure.message
        case .undecodableMessage(let reason):
            code = "undecodable-message"
            message = reason
        case .tooLarge(let direction, let byteCount, let limit):
            code = "too-large-\(direction.rawValue)"
            self.byteCount = byteCount
            self.limit = limit
        case .notPermitted(let reason):
            code = "not-permitted"
            message = reason
        default:
            code = "failed"
            message = error.description
        }
    }

    /// The error as its sender learns it.
    var error: MessageError {
        switch code {
        case "handler-timeout": .handlerTimeout
        case "busy": .busy
        case "cancelled", "closed": .closed
        case "no-handler": .noHandler(name: name ?? "")
        case "unsupported-version":
            .unsupportedVersion(name: name ?? "", version: version ?? 0, supported: supported ?? [])
        case "handler-failed":
            .handlerFailed(HandlerFailure(code: name ?? HandlerFailure.unspecifiedCode, message: message ?? ""))
        case "undecodable-message": .undecodableMessage(message ?? "")
        case "too-large-request": .tooLarge(.request, byteCount: byteCount ?? 0, limit: limit ?? 0)
        case "too-large-reply": .tooLarge(.reply, byteCount: byteCount ?? 0, limit: limit ?? 0)
        case "not-permitted": .notPermitted(message ?? "")
        default: .handlerFailed(HandlerFailure(code: code, message: message ?? code))
        }
    }
}
