// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The reason for a missing reply, as the sender of the request receives it.
public enum MessageError: Error, Hashable, Sendable {
    /// The direction of the message that was too large.
    public enum Direction: String, Hashable, Sendable {
        /// The request's.
        case request
        /// The reply's.
        case reply
    }

    /// No reply arrived in time. A later reply is dropped.
    case timeout
    /// The other side's handler exceeded that side's time limit.
    case handlerTimeout
    /// The sending task was cancelled.
    case cancelled
    /// The tunnel, or the process that serves it, does not exist or has ended.
    case closed
    /// The channel delivered the message but returned nothing.
    case noReply
    /// The other side has reached its limit of requests or clients.
    case busy
    /// There is no handler for messages of this name.
    case noHandler(name: String)
    /// There is a handler for messages of this name, but not for this version.
    case unsupportedVersion(name: String, version: UInt16, supported: [UInt16])
    /// The handler threw.
    case handlerFailed(HandlerFailure)
    /// The other side could not decode the message.
    case undecodableMessage(String)
    /// The reply could not be decoded as the message's reply type.
    case undecodableReply(String)
    /// The message cannot be encoded as JSON.
    case unencodableMessage(String)
    /// The request or its reply has more bytes than is allowed.
    case tooLarge(Direction, byteCount: Int, limit: Int)
    /// The other side, or the system, does not permit this process to send messages to it.
    case notPermitted(String)
    /// The other side supports only single messages.
    case subscriptionsUnsupported
    /// The channel failed in another way.
    case channelFailed(String)
}

/// A handler's error, in a form for other processes.
public struct HandlerFailure: Error, Hashable, Sendable, Codable {
    /// A code for programs; `failed` if the handler's error has no code.
    public var code: String
    /// A text for people, without secrets.
    public var message: String

    /// The code of errors that have none.
    public static let unspecifiedCode = "failed"

    /// Creates a failure. A handler may throw it.
    public init(code: String = unspecifiedCode, message: String) {
        self.code = code
        self.message = message
    }
}

/// An error with a code that the other process can act on.
public protocol HandlerFailureConvertible: Error {
    /// The failure to send to the other process.
    var handlerFailure: HandlerFailure { get }
}

extension HandlerFailure: HandlerFailureConvertible {
    /// Itself.
    public var handlerFailure: HandlerFailure { self }

    /// Describes any error, without the keys and tokens in its text.
    init(of error: any Error) {
        let told =
            (error as? any HandlerFailureConvertible)?.handlerFailure
            ?? HandlerFailure(message: String(describing: error))
        self.init(code: told.code, message: Redactor.redact(told.message))
    }
}

extension MessageError: CustomStringConvertible {
    /// The description of the error, with the message's name.
    public var description: String {
        switch self {
        case .timeout: "no reply came in time"
        case .handlerTimeout: "the tunnel took too long to answer"
        case .cancelled: "cancelled"
        case .closed: "the tunnel is not running"
        case .noReply:
            "the tunnel gave no reply: its provider has no handler on its 'router' and no 'handleAppMessage(_:)' that answers"
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

// MARK: - In the payload of a container

/// The form for the other process. An error that only a sender can have is encoded as a handler's failure, and
/// ``MessageError/cancelled`` as ``MessageError/closed``. An unknown code, from a later version, is decoded as a
/// handler's failure with that code.
extension MessageError: Codable {
    private enum CodingKeys: String, CodingKey { case code, message, name, version, supported, byteCount, limit }

    /// Decodes an error. Only `code` is required.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let code = try container.decode(String.self, forKey: .code)
        let message = try container.decodeIfPresent(String.self, forKey: .message)
        let name = try container.decodeIfPresent(String.self, forKey: .name)
        let version = try container.decodeIfPresent(UInt16.self, forKey: .version) ?? 0
        let supported = try container.decodeIfPresent([UInt16].self, forKey: .supported) ?? []
        let byteCount = try container.decodeIfPresent(Int.self, forKey: .byteCount) ?? 0
        let limit = try container.decodeIfPresent(Int.self, forKey: .limit) ?? 0
        self =
            switch code {
            case "handler-timeout": .handlerTimeout
            case "busy": .busy
            case "cancelled", "closed": .closed
            case "no-reply": .noReply
            case "no-handler": .noHandler(name: name ?? "")
            case "unsupported-version": .unsupportedVersion(name: name ?? "", version: version, supported: supported)
            case "handler-failed":
                .handlerFailed(HandlerFailure(code: name ?? HandlerFailure.unspecifiedCode, message: message ?? ""))
            case "undecodable-message": .undecodableMessage(message ?? "")
            case "too-large-request": .tooLarge(.request, byteCount: byteCount, limit: limit)
            case "too-large-reply": .tooLarge(.reply, byteCount: byteCount, limit: limit)
            case "not-permitted": .notPermitted(message ?? "")
            default: .handlerFailed(HandlerFailure(code: code, message: message ?? code))
            }
    }

    /// Encodes the error.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(code, forKey: .code)
        switch self {
        case .handlerTimeout, .busy, .cancelled, .closed: break
        case .noHandler(let name): try container.encode(name, forKey: .name)
        case .unsupportedVersion(let name, let version, let supported):
            try container.encode(name, forKey: .name)
            try container.encode(version, forKey: .version)
            try container.encode(supported, forKey: .supported)
        case .handlerFailed(let failure):
            try container.encode(failure.code, forKey: .name)
            try container.encode(failure.message, forKey: .message)
        case .undecodableMessage(let reason), .notPermitted(let reason):
            try container.encode(reason, forKey: .message)
        case .tooLarge(_, let byteCount, let limit):
            try container.encode(byteCount, forKey: .byteCount)
            try container.encode(limit, forKey: .limit)
        case .timeout, .noReply, .undecodableReply, .unencodableMessage, .subscriptionsUnsupported, .channelFailed:
            try container.encode(description, forKey: .message)
        }
    }

    private var code: String {
        switch self {
        case .handlerTimeout: "handler-timeout"
        case .busy: "busy"
        case .cancelled: "cancelled"
        case .closed: "closed"
        case .noReply: "no-reply"
        case .noHandler: "no-handler"
        case .unsupportedVersion: "unsupported-version"
        case .handlerFailed: "handler-failed"
        case .undecodableMessage: "undecodable-message"
        case .tooLarge(let direction, _, _): "too-large-\(direction.rawValue)"
        case .notPermitted: "not-permitted"
        case .timeout, .undecodableReply, .unencodableMessage, .subscriptionsUnsupported, .channelFailed:
            HandlerFailure.unspecifiedCode
        }
    }
}
