// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PasswordHashing
import Provisioning
import TunnelServer
import TunnelSystem
import WireGuardCore

/// The folder of `culvert-credential-server`, a removed program: its settings, its keys, its users, and the addresses
/// that the users had.
package struct CredentialServerFolder: Sendable {
    /// The settings of `server.json`. Missing members have their defaults.
    struct Settings: Sendable {
        var port: UInt16 = 51_840
        var interface = "cred0"
        var addresses: [InterfaceAddress] = []
        var mtu = 1420
        var routes: [IPPrefix] = [.allIPv4, .allIPv6]
        var nameServers: [IPAddress] = []
        var keepalive: UInt16 = 25
        var ipv4 = ServerNetworkSettings.Way.masqueraded
        var ipv6 = ServerNetworkSettings.Way.masqueraded
        var services: [String] = []
        var answersPings = true
        var allowedNetworks: [IPPrefix] = []
        var otherInterfaces: [String] = []
        var addressRest = 3600
        var clients = 10_000
        var sessionsPerUser = 5
        var sessionLifetime = 0
        var passwordCost = PasswordHash.Cost()
        var failures = LoginLimiter.Limits()
    }

    /// A user in `users.json`.
    struct ServerUser: Sendable, Decodable {
        var login: String
        var password: PasswordHash
        var addresses: [IPAddress]
        var added: String
    }

    let settings: Settings
    let keys: LoginTunnelKeys
    let users: [ServerUser]
    /// The addresses that sessions had or may have had, each with the user's login, or `nil` if the login is not known.
    let lastAddresses: [IPAddress: String?]

    private static let settingsFile = "server.json"
    private static let usersFile = "users.json"
    private static let addressesFile = "addresses.json"

    private struct UserList: Decodable {
        var version: Int
        var users: [ServerUser]
    }

    private struct AddressList: Decodable {
        struct Entry: Decodable {
            var address: IPAddress
            var login: String?
        }
        var version: Int
        var addresses: [Entry]
        /// Whether the server has not recorded that it stopped. If so, sessions may have had any of these addresses
        /// until then.
        var isRunning: Bool?
    }

    /// Reads the folder. Only its owner may have access to it.
    /// - Throws: `.missing` if the folder or one of its files does not exist, `.unusable` if a file is not valid.
    package init(_ path: String) throws(GatewayDirectoryError) {
        guard
            let files = try PrivateDirectory<GatewayDirectoryError>(
                existing: path, access: .ownerOnly, byteLimit: 1 << 26)
        else { throw GatewayDirectoryError("the folder \(path) does not exist", kind: .missing) }
        guard let settings = try files.read(Self.settingsFile) else {
            throw GatewayDirectoryError(
                "\(path) does not contain \(Self.settingsFile), so it is not the folder of a credential server",
                kind: .missing)
        }
        self.settings = try Self.decode(Settings.self, settings, Self.settingsFile)
        func key(_ name: String) throws(GatewayDirectoryError) -> String {
            guard var bytes = try files.read(name) else {
                throw GatewayDirectoryError("\(path)/\(name) is missing", kind: .missing, fix: "restore it from a copy")
            }
            defer { wipe(&bytes) }
            return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
        guard let privateKey = PrivateKey(base64: try key("private.key")), !privateKey.isZero else {
            throw Self.unusable("private.key", "cannot read the private key")
        }
        guard let presharedKey = PresharedKey(base64: try key("preshared.key")), !presharedKey.isZero else {
            throw Self.unusable("preshared.key", "cannot read the pre-shared key")
        }
        keys = LoginTunnelKeys(privateKey: privateKey, presharedKey: presharedKey)
        var users: [ServerUser] = []
        if let bytes = try files.read(Self.usersFile) {
            let list = try Self.decode(UserList.self, bytes, Self.usersFile)
            try Self.check(list.version, Self.usersFile)
            users = list.users
        }
        self.users = users
        var last: [IPAddress: String?] = [:]
        if let bytes = try files.read(Self.addressesFile) {
            let list = try Self.decode(AddressList.self, bytes, Self.addressesFile)
            try Self.check(list.version, Self.addressesFile)
            for entry in list.addresses where entry.login != nil || list.isRunning == true {
                last.updateValue(entry.login, forKey: entry.address)
            }
        }
        lastAddresses = last
    }

    private static func check(_ version: Int, _ file: String) throws(GatewayDirectoryError) {
        guard version == 1 else { throw unusable(file, "unknown version \(version)") }
    }

    private static func decode<Value: Decodable>(
        _: Value.Type, _ bytes: [UInt8], _ file: String
    ) throws(GatewayDirectoryError) -> Value {
        do throws(JSONError) { _ = try JSON.read(bytes) } catch {
            if let path = error.repeatedPath {
                throw unusable(file, "\(ContractError.visible(path)) must not occur twice")
            }
        }
        do { return try JSONDecoder().decode(Value.self, from: Data(bytes)) } catch let error as DecodingError {
            let (place, reason) = error.problem()
            throw unusable(place.isEmpty ? file : "\(file): \(place)", reason)
        } catch {
            throw unusable(file, "\(error)")
        }
    }

    /// The error of a file of the folder that cannot be used.
    static func unusable(_ place: String, _ problem: String) -> GatewayDirectoryError {
        GatewayDirectoryError("\(place): \(problem)", kind: .unusable)
    }
}

extension CredentialServerFolder.Settings: Decodable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case port, interface, addresses, mtu, routes, nameServers, keepalive, ipv4, ipv6, services, answersPings
        case allowedNetworks, otherInterfaces, addressRest, clients, sessionsPerUser, sessionLifetime, passwordCost
        case failures
    }

    init(from decoder: any Decoder) throws {
        let values = try decoder.settings(CodingKeys.self)
        self.init()
        try values.read(.port, into: &port)
        try values.read(.interface, into: &interface)
        try values.read(.addresses, into: &addresses)
        try values.read(.mtu, into: &mtu)
        try values.read(.routes, into: &routes)
        try values.read(.nameServers, into: &nameServers)
        try values.read(.keepalive, into: &keepalive)
        try values.read(.ipv4, into: &ipv4)
        try values.read(.ipv6, into: &ipv6)
        try values.read(.services, into: &services)
        try values.read(.answersPings, into: &answersPings)
        try values.read(.allowedNetworks, into: &allowedNetworks)
        try values.read(.otherInterfaces, into: &otherInterfaces)
        try values.read(.addressRest, into: &addressRest)
        try values.read(.clients, into: &clients)
        try values.read(.sessionsPerUser, into: &sessionsPerUser)
        try values.read(.sessionLifetime, into: &sessionLifetime)
        try values.read(.passwordCost, into: &passwordCost)
        try values.read(.failures, into: &failures)
    }
}
