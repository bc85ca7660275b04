// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel

/// The messages between app and extension, which also carry the provider's own messages.
///
/// The system provides one call in each direction: a message and an optional answer. Messages of a
/// ``NetworkExtensionChannel`` begin with a mark, so that the channel can distinguish an error of the host from a
/// missing answer, and can request the full status. All other messages reach the provider unchanged, and its answers
/// are returned unchanged.
enum ExtensionMessage {
    /// The first bytes of a marked message. No text and no JSON begins with them.
    static let mark: [UInt8] = [0x00, 0x63, 0x76, 0x74]

    /// The app's request.
    enum Request: Hashable, Sendable {
        /// Pass a message to the provider and return its answer.
        case message([UInt8])
        /// Return the status, with the error.
        case status
        /// Start again from ``TunnelStatus/blocked``. The system does not notice this start.
        /// - Parameter options: The app's options for this start. An extension of an earlier version ignores them.
        case restart(options: [String: JSONValue]?)
    }

    /// The extension's reply.
    enum Reply: Hashable, Sendable {
        /// The provider's answer, or `nil` for none.
        case answer([UInt8]?)
        /// The status.
        case status(TunnelStatusUpdate)
        /// The reason for a missing answer.
        case failure(TunnelError)
    }

    private enum Kind: UInt8 {
        case message = 1
        case status
        case restart
        case answer
        case noAnswer
        case currentStatus
        case failure
    }

    static func encode(_ request: Request) -> Data {
        switch request {
        case .message(let bytes): frame(.message, bytes)
        case .status: frame(.status)
        case .restart(let options): frame(.restart, options.map(json) ?? [])
        }
    }

    static func encode(_ reply: Reply) -> Data {
        switch reply {
        case .answer(let bytes?): frame(.answer, bytes)
        case .answer(nil): frame(.noAnswer)
        case .status(let update): frame(.currentStatus, json(update))
        case .failure(let error): frame(.failure, json(error))
        }
    }

    private static func frame(_ kind: Kind, _ payload: [UInt8] = []) -> Data {
        Data(mark + [kind.rawValue] + payload)
    }

    /// Encodes a value. This always succeeds for these types; the other side would refuse an empty text.
    private static func json(_ value: some Encodable) -> [UInt8] {
        (try? JSONEncoder().encode(value)).map(Array.init) ?? []
    }

    /// Decodes a request; `nil` for a message to the provider.
    static func request(_ data: Data) -> Request? {
        guard let (kind, payload) = parts(data) else { return nil }
        return switch kind {
        case .message: .message(Array(payload))
        case .status: .status
        case .restart: .restart(options: try? decode(payload) as [String: JSONValue])
        default: nil
        }
    }

    /// Decodes a reply.
    /// - Throws: `.channelFailed` for any other data, and for no data.
    static func reply(_ data: Data?) throws(TunnelError) -> Reply {
        guard let data, let (kind, payload) = parts(data) else { throw noReply }
        switch kind {
        case .answer: return .answer(Array(payload))
        case .noAnswer: return .answer(nil)
        case .currentStatus: return .status(try decode(payload))
        case .failure: return .failure(try decode(payload))
        default: throw noReply
        }
    }

    private static func decode<Value: Decodable>(_ payload: Data) throws(TunnelError) -> Value {
        do { return try JSONDecoder().decode(Value.self, from: payload) } catch { throw noReply }
    }

    private static func parts(_ data: Data) -> (Kind, Data)? {
        guard data.starts(with: mark), let byte = data.dropFirst(mark.count).first, let kind = Kind(rawValue: byte)
        else { return nil }
        return (kind, Data(data.dropFirst(mark.count + 1)))
    }

    private static let noReply = TunnelError(
        .channelFailed, "the extension gave no answer",
        fix: "see whether it is running and of the same version as the app")
}
