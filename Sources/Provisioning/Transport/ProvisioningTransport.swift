// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Sends requests to the servers that give out tunnels. An app's own, over the HTTPS client and the pins that it has.
///
/// Only a server that ``ProvisioningServer`` describes may get the request: the transport verifies its name and its
/// authorities, and follows no redirection.
public protocol ProvisioningTransport: Sendable {
    /// Sends a request, and returns the whole reply, whatever its status.
    /// - Throws: also when the calling task was cancelled.
    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply
}

/// Where a request goes, and who may answer it.
public struct ProvisioningServer: Hashable, Sendable, Codable {
    /// The name that the server's certificate has to be for.
    public var name: String
    /// Where to connect; nil looks the name up.
    public var address: IPAddress?
    /// The TCP port.
    public var port: UInt16

    /// A server.
    public init(name: String, address: IPAddress? = nil, port: UInt16) {
        self.name = name
        self.address = address
        self.port = port
    }

    /// What the field `Host` says.
    public var authority: String { port == 443 ? name : "\(name):\(port)" }
}

/// A request over HTTPS.
public struct ProvisioningRequest: Sendable {
    /// The server.
    public var server: ProvisioningServer
    /// The path, and behind a question mark what is asked, each value encoded once. It may hold a token: it belongs in no log.
    public var target: String
    /// Header fields, `Host` among them.
    public var fields: [(name: String, value: String)]
    /// The most bytes that the reply's body may have.
    public var replyLimit: Int
    /// The mark that the sockets need on Linux to get around a tunnel that is up and carries nothing.
    public var socketMark: UInt32?

    package init(server: ProvisioningServer, target: String, replyLimit: Int = 65_536, socketMark: UInt32? = nil) {
        self.server = server
        self.target = target
        fields = [("Host", server.authority), ("Accept", "application/json")]
        self.replyLimit = replyLimit
        self.socketMark = socketMark
    }
}

extension ProvisioningRequest: CustomStringConvertible {
    /// Without what may be secret.
    public var description: String { "GET https://\(server.authority)\(target.prefix { $0 != "?" })" }
}

/// What a server answered.
public struct ProvisioningReply: Sendable {
    /// The HTTP status.
    public var status: Int
    /// The body.
    public var body: [UInt8]

    /// A reply.
    public init(status: Int, body: [UInt8]) {
        self.status = status
        self.body = body
    }
}

/// Why there is no reply.
public enum ProvisioningTransportError: Error, Hashable, Sendable {
    /// The server could not be reached, or the connection ended before the reply did.
    case unreachable(String)
    /// What answered is not the server that was asked for: its name, its pins or its authorities are others.
    case untrusted(String)
    /// The reply is longer than the request allows.
    case tooLong(limit: Int)
    /// The request cannot be sent by this transport.
    case unsupported(String)
}

/// Values of a query (RFC 3986, section 3.4): each byte that is not unreserved is encoded, once.
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
