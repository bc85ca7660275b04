// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The contents of sealed packets, as JSON.
public enum Body {
    /// The most bytes of a body, padding included: with header, tag, UDP and IPv6 these are the 1280 bytes that every path
    /// carries (RFC 8200 section 5).
    public static let maximumByteCount = 1200
    /// Bodies are filled up with spaces to a multiple of this, so that their length says little about a password.
    public static let padding = 300

    /// The client's login.
    public struct ClientAuthRequest: Codable, Hashable, Sendable, CustomStringConvertible, CustomReflectable {
        /// The user's name: 1 to 128 bytes of UTF-8.
        public var login: String
        /// The password: up to 512 bytes of UTF-8.
        public var password: String

        /// A login.
        public init(login: String, password: String) {
            self.login = login
            self.password = password
        }

        /// The login alone.
        public var description: String { "login of '\(login)'" }
        /// Shows no password to `dump` and debuggers.
        public var customMirror: Mirror { Mirror(self, children: ["login": login]) }
    }

    /// The server's answer.
    public enum ServerAuthResponse: Hashable, Sendable {
        /// The login was accepted, with the assignment for the client's interface.
        case accepted(Assignment)
        /// It is not.
        case refused(Refusal)

        /// Whether the login is good.
        public var isOK: Bool {
            if case .accepted = self { true } else { false }
        }
    }

    /// The server's assignment to a client.
    public struct Assignment: Codable, Hashable, Sendable {
        /// The interface's addresses: at least one, and at most one of each family.
        public var addresses: [InterfaceAddress]
        /// The networks to be reached through the tunnel: up to 16.
        public var routes: [IPPrefix]
        /// The name servers: up to 4.
        public var dns: [IPAddress]
        /// The largest IP packet in the tunnel, in bytes: 576 to 65,535, with an IPv6 address at least 1280.
        public var mtu: Int
        /// How long a client may be silent, in seconds, before it sends a keepalive: 1 to 3600, or 0 for ever.
        public var keepalive: Int

        /// Creates an assignment.
        public init(
            addresses: [InterfaceAddress], routes: [IPPrefix] = [], dns: [IPAddress] = [], mtu: Int = 1420,
            keepalive: Int = 25
        ) {
            self.addresses = addresses
            self.routes = routes
            self.dns = dns
            self.mtu = mtu
            self.keepalive = keepalive
        }
    }

    /// The reason for a refused login.
    public struct Refusal: Codable, Hashable, Sendable {
        /// The reason, for a program.
        public struct Reason: RawRepresentable, Codable, Hashable, Sendable {
            /// 1 to 32 lower-case letters and hyphens.
            public var rawValue: String

            /// A reason; this side may not know it.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// There is no such user, or the password is another. The server does not say which.
            public static let credentials = Reason(rawValue: "credentials")
            /// The server has no place, or no address, for one more client.
            public static let full = Reason(rawValue: "full")
            /// Too many recent attempts; later ones may succeed.
            public static let attempts = Reason(rawValue: "attempts")
            /// The server cannot tell now.
            public static let unavailable = Reason(rawValue: "unavailable")
        }

        /// The reason.
        public var reason: Reason
        /// The reason for people: up to 200 bytes without control characters. It may be empty.
        public var message: String

        /// A refusal.
        public init(_ reason: Reason, message: String = "") {
            self.reason = reason
            self.message = message
        }
    }
}

extension Body.ServerAuthResponse: Codable {
    private enum CodingKeys: String, CodingKey { case isOK }

    /// Decodes; the members of the answer are on the level of `isOK`.
    public init(from decoder: any Decoder) throws {
        let isOK = try decoder.container(keyedBy: CodingKeys.self).decode(Bool.self, forKey: .isOK)
        self = isOK ? .accepted(try Body.Assignment(from: decoder)) : .refused(try Body.Refusal(from: decoder))
    }

    /// Encodes.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(isOK, forKey: .isOK)
        switch self {
        case .accepted(let assignment): try assignment.encode(to: encoder)
        case .refused(let refusal): try refusal.encode(to: encoder)
        }
    }
}

// MARK: - Bounds

/// A body whose fields have bounds, which apply to sender and receiver.
protocol BoundedBody: Codable {
    func check() throws(PacketParsingError)
}

extension Body.ClientAuthRequest: BoundedBody {
    func check() throws(PacketParsingError) {
        guard (1...128).contains(login.utf8.count) else {
            throw .outOfBounds(field: "login", problem: "has \(login.utf8.count) bytes; it must have 1 to 128")
        }
        guard !login.unicodeScalars.contains(where: \.isControlCharacter) else {
            throw .outOfBounds(field: "login", problem: "holds a control character")
        }
        guard password.utf8.count <= 512 else {
            throw .outOfBounds(field: "password", problem: "has more than 512 bytes")
        }
    }
}

extension Body.ServerAuthResponse: BoundedBody {
    func check() throws(PacketParsingError) {
        switch self {
        case .accepted(let assignment): try assignment.check()
        case .refused(let refusal): try refusal.check()
        }
    }
}

extension Body.Assignment {
    fileprivate func check() throws(PacketParsingError) {
        let hasIPv6 = addresses.contains(where: \.isIPv6)
        guard !addresses.isEmpty, addresses.count <= 2,
            addresses.count == 1 || addresses[0].isIPv6 != addresses[1].isIPv6
        else { throw .outOfBounds(field: "addresses", problem: "is not one address of one or each family") }
        for address in addresses {
            guard address.peer == nil, address.address.isHost else {
                throw .outOfBounds(
                    field: "addresses", problem: "holds \(address), which is not valid as a client's address")
            }
        }
        guard routes.count <= 16 else { throw .outOfBounds(field: "routes", problem: "has more than 16 networks") }
        guard dns.count <= 4 else { throw .outOfBounds(field: "dns", problem: "has more than 4 servers") }
        guard dns.allSatisfy(\.isHost) else {
            throw .outOfBounds(field: "dns", problem: "holds an address that no server has")
        }
        guard ((hasIPv6 ? 1280 : 576)...65_535).contains(mtu) else {
            throw .outOfBounds(field: "mtu", problem: "is \(mtu); it is \(hasIPv6 ? 1280 : 576) to 65535")
        }
        guard (0...3600).contains(keepalive) else {
            throw .outOfBounds(field: "keepalive", problem: "is \(keepalive); it is 0 to 3600 seconds")
        }
    }
}

extension Body.Refusal {
    fileprivate func check() throws(PacketParsingError) {
        let reason = reason.rawValue.utf8
        guard (1...32).contains(reason.count),
            reason.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || $0 == UInt8(ascii: "-") })
        else { throw .outOfBounds(field: "reason", problem: "is not 1 to 32 lower-case letters and hyphens") }
        guard message.utf8.count <= 200, !message.unicodeScalars.contains(where: \.isControlCharacter) else {
            throw .outOfBounds(field: "message", problem: "has more than 200 bytes or a control character")
        }
    }
}

extension IPAddress {
    /// Whether one host can have it.
    fileprivate var isHost: Bool { !isUnspecified && !isLoopback && !isMulticast && !isBroadcast }
}

extension Unicode.Scalar {
    /// Characters that must not reach a terminal or a log: C0, DEL, C1, and the marks that change the direction of text.
    fileprivate var isControlCharacter: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}
