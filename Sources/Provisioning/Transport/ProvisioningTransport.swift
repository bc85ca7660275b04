// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Sends requests to the servers that assign tunnels. The module `PinnedProvisioning` contains one transport. An app
/// may implement another one, based on its HTTPS client.
///
/// Only the server that ``ProvisioningServer`` describes may receive the request: the transport must verify it
/// according to ``ServerTrust``, and must not follow redirections.
public protocol ProvisioningTransport: Sendable {
    /// Sends a request, and returns the whole reply, with any status.
    /// - Throws: The reason for a missing reply, also if the calling task was cancelled.
    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply
}

/// The destination of a request, and its verification.
public struct ProvisioningServer: Hashable, Sendable, Codable {
    /// The name in the server's certificate: a DNS name or an IP address.
    public var name: String
    /// The address to connect to; if it is `nil`, the transport resolves the name.
    public var address: IPAddress?
    /// The TCP port.
    public var port: UInt16
    /// The verification of the server.
    public var trust: ServerTrust

    /// Makes a server.
    public init(name: String, address: IPAddress? = nil, port: UInt16, trust: ServerTrust = .system) {
        self.name = name
        self.address = address
        self.port = port
        self.trust = trust
    }

    /// The value of the `Host` field.
    public var authority: String {
        let host = name.utf8.contains(UInt8(ascii: ":")) ? "[\(name)]" : name
        return port == 443 ? host : "\(host):\(port)"
    }

    private enum CodingKeys: String, CodingKey {
        case name, address, port, trust
    }

    /// Decodes a server. If the trust is missing, it is ``ServerTrust/system``.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try container.decode(String.self, forKey: .name),
            address: try container.decodeIfPresent(IPAddress.self, forKey: .address),
            port: try container.decode(UInt16.self, forKey: .port),
            trust: try container.decodeIfPresent(ServerTrust.self, forKey: .trust) ?? .system)
    }
}

/// A request over HTTPS.
public struct ProvisioningRequest: Sendable {
    /// The HTTP method.
    public enum Method: String, Sendable, Codable {
        case get = "GET"
        case post = "POST"
        case delete = "DELETE"
    }

    /// The server.
    public var server: ProvisioningServer
    /// The HTTP method.
    public var method: Method
    /// The path and, after a question mark, the query, with each value encoded once. It may contain a token, so it must not
    /// be logged.
    public var target: String
    /// The header fields, including `Host` but without `Authorization`.
    public var fields: [(name: String, value: String)]
    /// The value of `Authorization: Bearer`.
    public var bearer: SecretBytes?
    /// The body, which may contain a secret.
    public var body: [UInt8]?
    /// The largest size of the reply's body in bytes.
    public var replyLimit: Int
    /// The time limit from the connection to the end of the reply.
    public var timeout: Duration
    /// The mark with which sockets on Linux bypass a tunnel that is up but delivers no packets.
    public var socketMark: UInt32?

    package init(
        server: ProvisioningServer, method: Method = .get, target: String, bearer: SecretBytes? = nil,
        body: [UInt8]? = nil, replyLimit: Int = 65_536, timeout: Duration = .seconds(10), socketMark: UInt32? = nil
    ) {
        self.server = server
        self.method = method
        self.target = target
        fields = [("Host", server.authority), ("Accept", "application/json, application/problem+json")]
        if body != nil { fields.append(("Content-Type", "application/json")) }
        self.bearer = bearer
        self.body = body
        self.replyLimit = replyLimit
        self.timeout = timeout
        self.socketMark = socketMark
    }
}

extension ProvisioningRequest: CustomStringConvertible, CustomReflectable {
    /// The description without secrets.
    public var description: String {
        "\(method.rawValue) https://\(server.authority)\(target.prefix { $0 != "?" })"
    }

    /// Contains only ``description``.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

/// The reply of a server.
public struct ProvisioningReply: Sendable {
    /// The HTTP status.
    public var status: Int
    /// The body.
    public var body: [UInt8]

    /// Makes a reply.
    public init(status: Int, body: [UInt8]) {
        self.status = status
        self.body = body
    }
}

extension ProvisioningReply: CustomStringConvertible, CustomReflectable {
    /// A description without the body, which may contain a key.
    public var description: String { "HTTP \(status), \(body.count) bytes" }

    /// Contains only ``description``.
    public var customMirror: Mirror { Mirror(self, children: ["reply": description]) }
}

/// The reason for a missing reply.
public enum ProvisioningTransportError: Error, Hashable, Sendable, Codable {
    /// The server could not be reached, or the connection ended before the reply did.
    case unreachable(String)
    /// The server could not be verified: its name, key or authority does not match.
    case untrusted(String)
    /// The server's certificate is not valid yet according to this machine's clock, which was never set.
    case clockUnset(String)
    /// The reply is longer than the request allows.
    case tooLong(limit: Int)
    /// This transport cannot send the request.
    case unsupported(String)
}

/// Encodes values of a query (RFC 3986 section 3.4): each byte that is not unreserved is encoded once.
enum QueryText {
    private static let unreserved = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)

    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            if unreserved.contains(byte) {
                text.append(byte)
            } else {
                let digits = String(byte, radix: 16, uppercase: true).utf8
                text.append(UInt8(ascii: "%"))
                if digits.count == 1 { text.append(UInt8(ascii: "0")) }
                text += digits
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
