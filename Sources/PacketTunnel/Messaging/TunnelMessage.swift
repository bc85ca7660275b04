// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A request to the other process, with the type of its answer.
///
/// The author of a message can choose its name, so that a type can be renamed, and two types of the same name do not collide.
/// By default it is the name of the Swift type. If a change of the message could make the other side misunderstand it, give it a
/// new ``version``; a router may answer several versions of a name.
///
/// ```swift
/// struct StatusRequest: TunnelMessage {
///     struct Reply: Codable, Sendable { var receivedBytes: UInt64 }
///     static let name = "culvert.status"
/// }
/// ```
public protocol TunnelMessage: Codable, Sendable {
    /// The type of the reply.
    associatedtype Reply: Codable & Sendable

    /// The name that it is registered under: 1 to 255 of the characters `A-Z a-z 0-9 . _ -`. The default is the name of the
    /// type.
    static var name: String { get }

    /// The version of the message and its reply; the default is 1.
    static var version: UInt16 { get }
}

extension TunnelMessage {
    /// 1.
    public static var version: UInt16 { 1 }
}

/// A request for elements that the other process sends until one of the two ends it, such as the lines of a log.
///
/// Define and register it like a ``TunnelMessage``.
public protocol TunnelSubscription: Codable, Sendable {
    /// The type of the elements.
    associatedtype Element: Codable & Sendable

    /// The name that it is registered under: 1 to 255 of the characters `A-Z a-z 0-9 . _ -`.
    static var name: String { get }

    /// The version of the request and its elements; the default is 1.
    static var version: UInt16 { get }
}

extension TunnelSubscription {
    /// 1.
    public static var version: UInt16 { 1 }
}
