// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The JSON content of sealed messages.
public enum Body {
    /// The maximum size of a body, including padding. With header, tag, UDP and IPv6, this is 1280 bytes, which every
    /// path carries (RFC 8200 section 5).
    public static let maximumByteCount = 1200
    /// Bodies are padded with spaces to a multiple of this size, so that their length reveals little about a password.
    public static let padding = 300

    /// The client's login.
    public struct ClientAuthRequest: Codable, Hashable, Sendable, CustomStringConvertible, CustomReflectable {
        /// The user's name: 1 to 128 bytes of UTF-8.
        public var login: String
        /// The password: up to 512 bytes of UTF-8.
        public var password: String

        /// Creates a login.
        public init(login: String, password: String) {
            self.login = login
            self.password = password
        }

        /// The login without the password.
        public var description: String { "login of '\(login)'" }
        /// Hides the password from `dump` and debuggers.
        public var customMirror: Mirror { Mirror(self, children: ["login": login]) }
    }

    /// The server's response.
    public enum ServerAuthResponse: Hashable, Sendable {
        /// The login was accepted, with this assignment.
        case accepted(Assignment)
        /// The login was refused.
        case refused(Refusal)

        /// Whether the login was accepted.
        public var isOK: Bool {
            if case .accepted = self { true } else { false }
        }
    }

    /// The settings that the server assigns to a client.
    public struct Assignment: Codable, Hashable, Sendable {
        /// The interface's addresses: one or two, at most one of each family.
        public var addresses: [InterfaceAddress]
        /// The networks to route through the tunnel: at most 16.
        public var routes: [IPPrefix]
        /// The name servers: at most 4.
        public var dns: [IPAddress]
        /// The maximum size of an IP packet in the tunnel, in bytes: 576 to 65,535; with an IPv6 address, at least
        /// 1280.
        public var mtu: Int
        /// The time after which an idle client sends a keepalive, in seconds: 1 to 3600, or 0 to send none.
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

    /// The refusal of a login.
    public struct Refusal: Codable, Hashable, Sendable {
        /// The machine-readable reason.
        public struct Reason: RawRepresentable, Codable, Hashable, Sendable {
            /// 1 to 32 lower-case letters and hyphens.
            public var rawValue: String

            /// Creates a reason, which may be unknown to this version.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// The user does not exist, or the password is wrong. The server does not distinguish them.
            public static let credentials = Reason(rawValue: "credentials")
            /// The server has reached its limit of clients, or has no free address.
            public static let full = Reason(rawValue: "full")
            /// There were too many recent attempts; later ones may succeed.
            public static let attempts = Reason(rawValue: "attempts")
            /// The server cannot verify logins now.
            public static let unavailable = Reason(rawValue: "unavailable")
        }

        /// The reason.
        public var reason: Reason
        /// The readable reason: at most 200 bytes without control characters. It may be empty.
        public var message: String

        /// Creates a refusal.
        public init(_ reason: Reason, message: String = "") {
            self.reason = reason
            self.message = message
        }
    }
}

extension Body.ServerAuthResponse: Codable {
    private enum CodingKeys: String, CodingKey { case isOK }

    /// Decodes a response, whose fields are in the same object as `isOK`.
    public init(from decoder: any Decoder) throws {
        let isOK = try decoder.container(keyedBy: CodingKeys.self).decode(Bool.self, forKey: .isOK)
        self = isOK ? .accepted(try Body.Assignment(from: decoder)) : .refused(try Body.Refusal(from: decoder))
    }

    /// Encodes a response.
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

/// A body whose fields have bounds, which sender and receiver check.
protocol BoundedBody: Codable {
    func check() throws(PacketParsingError)
}

extension Body.ClientAuthRequest: BoundedBody {
    func check() throws(PacketParsingError) {
        guard (1...128).contains(login.utf8.count) else {
            throw .outOfBounds(field: "login", problem: "must have 1 to 128 bytes, not \(login.utf8.count)")
        }
        guard !login.unicodeScalars.contains(where: \.isControlCharacter) else {
            throw .outOfBounds(field: "login", problem: "must not contain control characters")
        }
        guard password.utf8.count <= 512 else {
            throw .outOfBounds(field: "password", problem: "must not exceed 512 bytes")
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
        else {
            throw .outOfBounds(
                field: "addresses", problem: "must contain one or two addresses, at most one of each family")
        }
        for address in addresses {
            guard address.peer == nil, address.address.isHost else {
                throw .outOfBounds(
                    field: "addresses", problem: "contains \(address), which cannot be a client's address")
            }
        }
        guard routes.count <= 16 else {
            throw .outOfBounds(field: "routes", problem: "must contain at most 16 networks")
        }
        guard dns.count <= 4 else { throw .outOfBounds(field: "dns", problem: "must contain at most 4 servers") }
        guard dns.allSatisfy(\.isHost) else {
            throw .outOfBounds(field: "dns", problem: "contains an address that cannot be a server's")
        }
        guard ((hasIPv6 ? 1280 : 576)...65_535).contains(mtu) else {
            throw .outOfBounds(field: "mtu", problem: "must be between \(hasIPv6 ? 1280 : 576) and 65535, not \(mtu)")
        }
        guard (0...3600).contains(keepalive) else {
            throw .outOfBounds(field: "keepalive", problem: "must be between 0 and 3600 seconds, not \(keepalive)")
        }
    }
}

extension Body.Refusal {
    fileprivate func check() throws(PacketParsingError) {
        let reason = reason.rawValue.utf8
        guard (1...32).contains(reason.count),
            reason.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || $0 == UInt8(ascii: "-") })
        else { throw .outOfBounds(field: "reason", problem: "must be 1 to 32 lower-case letters and hyphens") }
        guard message.utf8.count <= 200, !message.unicodeScalars.contains(where: \.isControlCharacter) else {
            throw .outOfBounds(field: "message", problem: "must not exceed 200 bytes or contain control characters")
        }
    }
}

extension IPAddress {
    /// Whether the address can be that of one host.
    fileprivate var isHost: Bool { !isUnspecified && !isLoopback && !isMulticast && !isBroadcast }
}

extension Unicode.Scalar {
    /// Whether the scalar is unsafe for terminals and logs: C0, DEL, C1, and marks that change the text direction.
    fileprivate var isControlCharacter: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}
