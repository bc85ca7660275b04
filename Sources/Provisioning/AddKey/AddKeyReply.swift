// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import TunnelSystem
public import WireGuardCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A server's reply to `addKey`, with every field checked.
public struct AddKeyReply: Hashable, Sendable {
    /// The server's key (`server_key`).
    public let serverKey: PublicKey
    /// The server's WireGuard endpoint (`server_ip`, `server_port`).
    public let endpoint: EndpointAddress
    /// The client's address in the tunnel (`peer_ip`).
    public let address: InterfaceAddress
    /// Name servers inside the tunnel (`dns_servers`).
    public let nameServers: [IPAddress]
    /// The server's address inside the tunnel (`server_vip`), or `nil` if the reply does not contain it. PIA's servers
    /// forward ports at this address.
    public let innerAddress: IPAddress?

    private struct Fields: Decodable {
        var status: String
        var message: String?
        var serverKey: String?
        var serverPort: Int?
        var serverIP: String?
        var serverVIP: String?
        var peerIP: String?
        var peerPublicKey: String?
        var dnsServers: [String]?

        enum CodingKeys: String, CodingKey {
            case status, message
            case serverKey = "server_key"
            case serverPort = "server_port"
            case serverIP = "server_ip"
            case serverVIP = "server_vip"
            case peerIP = "peer_ip"
            case peerPublicKey = "peer_pubkey"
            case dnsServers = "dns_servers"
        }
    }

    /// Decodes a reply.
    /// - Parameters:
    ///   - reply: The server's reply.
    ///   - publicKey: The registered key, which the server must repeat.
    ///   - allowsLoopback: Whether the server may have a loopback address, because it runs on this machine.
    /// - Throws: `.refused` or `.busy` with the server's reason; `.reply` with the field that is not valid.
    public init(
        _ reply: ProvisioningReply, for publicKey: PublicKey, allowsLoopback: Bool = false
    ) throws(ProvisioningError) {
        let fields = try? JSONDecoder().decode(Fields.self, from: Data(reply.body))
        guard reply.status == 200, fields?.status == "OK" else {
            throw Self.refusal(reply.status, fields.map { [$0.status, $0.message].compactMap { $0 } } ?? [])
        }
        guard let fields else { throw .reply(field: "body", problem: "is not the expected JSON") }
        // Refuse repeated members: JSON readers differ in which of them they use.
        do throws(ContractError) { _ = try JSON.read(contract: reply.body) } catch {
            throw .reply(field: error.field, problem: error.problem)
        }
        let echoed = try Self.key(fields.peerPublicKey, "peer_pubkey")
        guard echoed == publicKey else {
            throw .reply(field: "peer_pubkey", problem: "is not the key that was sent")
        }
        serverKey = try Self.key(fields.serverKey, "server_key")
        guard serverKey != publicKey else { throw .reply(field: "server_key", problem: "is the client's own key") }
        let host = try Self.parse(fields.serverIP, "server_ip") { (text) throws(AddressTextError) in
            try IPAddress(text)
        }
        if !(allowsLoopback && host.unmapped.isLoopback) { try Self.check(host, "server_ip") }
        guard let port = fields.serverPort, let number = UInt16(exactly: port), number != 0 else {
            throw .reply(
                field: "server_port",
                problem: fields.serverPort.map { "\($0) is not in 1...65535" } ?? "is missing")
        }
        let place = Endpoint(address: host, port: number).description
        endpoint = try Self.parse(place, "server_ip") { (text) throws(AddressTextError) in try EndpointAddress(text) }
        address = try Self.parse(fields.peerIP, "peer_ip") { (text) throws(AddressTextError) in
            try InterfaceAddress(text)
        }
        try Self.check(address.address, "peer_ip")
        var nameServers: [IPAddress] = []
        for text in fields.dnsServers ?? [] {
            let server = try Self.parse(text, "dns_servers") { (text) throws(AddressTextError) in try IPAddress(text) }
            try Self.check(server, "dns_servers")
            nameServers.append(server)
        }
        self.nameServers = nameServers
        if let text = fields.serverVIP, !text.isEmpty {
            let inner = try Self.parse(text, "server_vip") { (text) throws(AddressTextError) in try IPAddress(text) }
            try Self.check(inner, "server_vip")
            innerAddress = inner
        } else {
            innerAddress = nil
        }
    }

    private static func check(_ address: IPAddress, _ field: String) throws(ProvisioningError) {
        if let kind = LocalAddresses.kind(of: address) { throw .reply(field: field, problem: "\(address) is \(kind)") }
    }

    private static func key(_ text: String?, _ field: String) throws(ProvisioningError) -> PublicKey {
        guard let text else { throw .reply(field: field, problem: "is missing") }
        guard let key = PublicKey(base64: text), !key.isZero else {
            throw .reply(field: field, problem: "is not a key of 32 bytes in base64")
        }
        return key
    }

    private static func parse<Value>(
        _ text: String?, _ field: String, _ read: (String) throws(AddressTextError) -> Value
    ) throws(ProvisioningError) -> Value {
        guard let text else { throw .reply(field: field, problem: "is missing") }
        do throws(AddressTextError) {
            return try read(text)
        } catch {
            throw .reply(field: field, problem: "\(error)")
        }
    }

    private static func refusal(_ status: Int, _ words: [String]) -> ProvisioningError {
        let said = words.joined(separator: ": ").filter { !$0.isNewline }.prefix(200)
        let reason = said.isEmpty ? "" : ": \(said)"
        switch status {
        case 401, 403: return .refused("the server does not accept the token (HTTP \(status)\(reason))")
        case 408, 425, 429, 500...599: return .busy("the server cannot answer now (HTTP \(status)\(reason))")
        case 200: return .refused("the server refused\(reason)")
        default: return .refused("the server does not answer as expected (HTTP \(status)\(reason))")
        }
    }
}
