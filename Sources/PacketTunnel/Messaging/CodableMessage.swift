// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Messages of any `Codable` type, without a conformance to `TunnelMessage`.

extension TunnelMessage {
    /// The name of the type without its module, such as `Outer.Request`. Each character that a name must not have is replaced
    /// by `_`.
    ///
    /// Both sides must have the type under the same name. Declare a name if the type may be renamed, or if two modules of a
    /// program could have a message of this name.
    public static var name: String { MessageContainer.defaultName(of: Self.self) }
}

extension TunnelSubscription {
    /// The name of the type, as for a ``TunnelMessage``.
    public static var name: String { MessageContainer.defaultName(of: Self.self) }
}

extension MessageClient {
    /// Sends a value of any type and waits for its reply, which a handler of ``MessageRouter/on(_:replying:_:)`` makes.
    /// - Parameters:
    ///   - message: The message. Its name is the default name of a ``TunnelMessage`` of its type, or its own name if it is one.
    ///   - reply: The type of the reply.
    ///   - timeout: The time limit; `nil` for that of the client.
    /// - Throws: The reason for a missing reply.
    public func send<Message: Codable & Sendable, Reply: Codable & Sendable>(
        _ message: Message, expecting reply: Reply.Type, timeout: Duration? = nil
    ) async throws(MessageError) -> Reply {
        try await send(CodableMessage<Message, Reply>(message: message), timeout: timeout)
    }
}

extension MessageRouter {
    /// Answers values of any type with `handler`, and replaces an earlier handler; `nil` removes it. The sender uses
    /// ``MessageClient/send(_:expecting:timeout:)``.
    /// - Parameters:
    ///   - type: The type of the message, which determines its name.
    ///   - reply: The type of the reply.
    ///   - handler: Makes the reply.
    public func on<Message: Codable & Sendable, Reply: Codable & Sendable>(
        _ type: Message.Type, replying reply: Reply.Type, _ handler: (@Sendable (Message) async throws -> Reply)?
    ) {
        typealias Wrapped = CodableMessage<Message, Reply>
        guard let handler else { return on(Wrapped.self, nil) }
        on(Wrapped.self) { (wrapped: Wrapped) in try await handler(wrapped.message) }
    }
}

extension TunnelManager {
    /// Sends a value of any type to the provider of a profile's tunnel and waits for its reply.
    /// - Parameters:
    ///   - message: The message.
    ///   - reply: The type of the reply.
    ///   - id: The profile's ID.
    ///   - timeout: The time limit.
    /// - Throws: The error of a missing reply: ``MessageError/closed`` if the tunnel is not up.
    public nonisolated func send<Message: Codable & Sendable, Reply: Codable & Sendable>(
        _ message: Message, expecting reply: Reply.Type, to id: String,
        timeout: Duration = MessageClient.defaultTimeout
    ) async throws(MessageError) -> Reply {
        try await client(for: id, timeout: timeout).send(message, expecting: reply)
    }
}

/// A value of any type as a message. It encodes as the value alone.
private struct CodableMessage<Message: Codable & Sendable, Reply: Codable & Sendable>: TunnelMessage {
    static var name: String {
        (Message.self as? any TunnelMessage.Type)?.name ?? MessageContainer.defaultName(of: Message.self)
    }

    static var version: UInt16 { (Message.self as? any TunnelMessage.Type)?.version ?? 1 }

    var message: Message

    init(message: Message) { self.message = message }

    init(from decoder: any Decoder) throws { message = try Message(from: decoder) }

    func encode(to encoder: any Encoder) throws { try message.encode(to: encoder) }
}

extension MessageContainer {
    /// Returns the message name of a type: its name with the enclosing types, without the module, because app and extension
    /// may compile the type into different modules.
    static func defaultName(of type: Any.Type) -> String {
        var name = String(reflecting: type)
        // The name of a private type has a component such as "(unknown context at $7f0a)", which differs between programs.
        while let open = name.firstRange(of: "(unknown context at "),
            let close = name[open.upperBound...].firstRange(of: ").")
        {
            name.removeSubrange(open.lowerBound..<close.upperBound)
        }
        // The name of a type in an extension of another module's type begins with "(extension in App):".
        while let open = name.firstRange(of: "(extension in "),
            let close = name[open.upperBound...].firstRange(of: "):")
        {
            name.removeSubrange(open.lowerBound..<close.upperBound)
        }
        // The arguments of a generic type have modules too.
        let dot = UInt8(ascii: ".")
        func isPathByte(_ byte: UInt8) -> Bool { isNameByte(byte) && byte != UInt8(ascii: "-") || byte >= 0x80 }
        var local: [UInt8] = []
        var rest = Array(name.utf8)[...]
        while !rest.isEmpty {
            let path = rest.prefix(while: isPathByte)
            // A path after ">" continues the name of a generic type.
            let module = path.first == dot ? nil : path.firstIndex(of: dot)
            local += module.map { path[($0 + 1)...] } ?? path
            rest = rest[path.endIndex...]
            let others = rest.prefix { !isPathByte($0) }
            local += others
            rest = rest[others.endIndex...]
        }
        let bytes = local.prefix(255).map { isNameByte($0) ? $0 : UInt8(ascii: "_") }
        return String(decoding: bytes, as: UTF8.self)
    }
}
