// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// Gives its text back.
struct Echo: TunnelMessage, Equatable {
    struct Reply: Codable, Sendable, Equatable { var text: String }
    static let name = "test.echo"
    var text: String
}

/// The same name in a later version, with another reply.
struct EchoLouder: TunnelMessage {
    struct Reply: Codable, Sendable, Equatable { var loud: [String] }
    static let name = "test.echo"
    static let version: UInt16 = 2
    var text: String
}

/// Counts up to a number, or for ever.
struct CountTo: TunnelSubscription {
    typealias Element = Int
    static let name = "test.count"
    var last: Int
}

/// A channel that is a closure.
struct ScriptedChannel: MessageChannel {
    var answer: @Sendable ([UInt8]) async throws -> [UInt8]?

    func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        try await answer(request)
    }

    /// The reply to a request as another process would send it, after `change`.
    static func reply(
        to request: [UInt8], payload: String, change: (inout MessageContainer) -> Void = { _ in }
    ) throws -> [UInt8] {
        var container = try MessageContainer(decoding: request)
        container.kind = .reply
        container.payload = Array(payload.utf8)
        change(&container)
        return try container.encoded()
    }
}

func caught<Value>(_ body: () async throws -> Value) async -> MessageError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? MessageError
    }
}
