// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import NetworkAddresses
import PasswordHashing
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// How the server is set up: `server.json`. What is left out is as it is here.
struct ServerConfiguration: Hashable, Sendable {
    static let name = "server.json"

    enum Way: String, Hashable, Sendable, Codable, CaseIterable { case masqueraded, routed }

    /// The UDP port.
    var port: UInt16 = 51_840
    /// The tunnel's interface.
    var interface = "cred0"
    /// The server's own addresses in the tunnel. Their networks are the clients'.
    var addresses: [InterfaceAddress] = []
    var mtu = 1420
    /// What clients reach through the tunnel.
    var routes: [IPPrefix] = [.allIPv4, .allIPv6]
    /// The name servers that clients are given.
    var nameServers: [IPAddress] = []
    /// How long a client may be silent, in seconds.
    var keepalive = 25
    var ipv4 = Way.masqueraded
    var ipv6 = Way.masqueraded
    /// What clients reach of the server itself: `tcp/PORT`, `udp/PORT`.
    var services: [String] = []
    var answersPings = true
    /// Networks that clients reach though they are private.
    var allowedNetworks: [IPPrefix] = []
    /// Interfaces between which packets are forwarded as well, where the host forwarded nothing before.
    var otherInterfaces: [String] = []
    /// How long an address that was given back is given to no other user, in seconds; less where no other is free.
    var addressRest = 3600
    var clients = 10_000
    /// How many sessions a user has at once; the oldest makes room for one more.
    var sessionsPerUser = 5
    /// How long a session may last, in seconds, before its user has to log in again; 0: as long as it likes.
    var sessionLifetime = 0
    /// What hashing a new password costs.
    var passwordCost = PasswordHash.Cost()
    var failures = LoginLimiter.Limits()

    init() {}
}

extension ServerConfiguration: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case port, interface, addresses, mtu, routes, nameServers, keepalive, ipv4, ipv6, services, answersPings
        case allowedNetworks, otherInterfaces, addressRest, clients, sessionsPerUser, sessionLifetime, passwordCost
        case failures
    }

    init(from decoder: any Decoder) throws {
        let values = try decoder.settings(CodingKeys.self)
        self.init()
        try values.take(.port, &port)
        try values.take(.interface, &interface)
        try values.take(.addresses, &addresses)
        try values.take(.mtu, &mtu)
        try values.take(.routes, &routes)
        try values.take(.nameServers, &nameServers)
        try values.take(.keepalive, &keepalive)
        try values.take(.ipv4, &ipv4)
        try values.take(.ipv6, &ipv6)
        try values.take(.services, &services)
        try values.take(.answersPings, &answersPings)
        try values.take(.allowedNetworks, &allowedNetworks)
        try values.take(.otherInterfaces, &otherInterfaces)
        try values.take(.addressRest, &addressRest)
        try values.take(.clients, &clients)
        try values.take(.sessionsPerUser, &sessionsPerUser)
        try values.take(.sessionLifetime, &sessionLifetime)
        try values.take(.passwordCost, &passwordCost)
        try values.take(.failures, &failures)
    }
}

extension ServerConfiguration {
    /// What is wrong with it; nil where it can be used.
    var problem: String? {
        if port == 0 { return "port is 1 to 65535" }
        let families = addresses.map(\.isIPv6)
        if addresses.isEmpty || families.count != Set(families).count {
            return "addresses has one address of IPv4, of IPv6, or of both, such as 10.66.0.1/24"
        }
        if addresses.contains(where: { $0.peer != nil }) { return "addresses has no peers" }
        if let address = addresses.first(where: { !Self.isHost($0.address) }) {
            return "addresses: no interface can have \(address); use one of a private network, such as 10.66.0.1/24"
        }
        if !(576...65_535).contains(mtu) || (mtu < 1280 && families.contains(true)) {
            return "mtu is 576 to 65535, and 1280 at least with IPv6"
        }
        if routes.count > 16 { return "routes has 16 networks at most" }
        if nameServers.count > 4 { return "nameServers has 4 addresses at most" }
        if let server = nameServers.first(where: { !Self.isHost($0) }) {
            return
                "nameServers: clients cannot reach \(server); name a server on the network, such as 9.9.9.9, or one that "
                + "listens at this server's address in the tunnel"
        }
        if !(0...3600).contains(keepalive) { return "keepalive is 0 to 3600 seconds" }
        if let service = services.first(where: { Self.service($0) == nil }) {
            return "services: '\(service)' is not tcp/PORT or udp/PORT"
        }
        for (name, seconds) in [("addressRest", addressRest), ("sessionLifetime", sessionLifetime)]
        where !(0...Self.longest).contains(seconds) {
            return "\(name) is 0 to \(Self.longest) seconds, which are ten years"
        }
        if !(1...1_000_000).contains(clients) { return "clients is 1 to 1000000" }
        if !(1...1_000_000).contains(sessionsPerUser) { return "sessionsPerUser is 1 to 1000000" }
        if !passwordCost.isValid {
            return "passwordCost: n is a power of two up to 1048576, and 128*n*r*p at most 256 MiB"
        }
        for (name, value) in [
            ("free", failures.free), ("longestSourceWait", failures.longestSourceWait),
            ("longestLoginWait", failures.longestLoginWait), ("memory", failures.memory),
        ] where !(1...Self.longest).contains(value) {
            return "failures.\(name) is 1 to \(Self.longest)" + (name == "free" ? "" : " seconds, which are ten years")
        }
        return nil
    }

    /// Ten years in seconds: as nanoseconds they are added without overflow.
    private static let longest = 315_360_000

    /// Whether one host can have the address, and others reach it.
    private static func isHost(_ address: IPAddress) -> Bool {
        !address.isUnspecified && !address.isLoopback && !address.isMulticast && !address.isBroadcast
    }

    /// Transport and port of `tcp/PORT` or `udp/PORT`.
    static func service(_ text: String) -> (isTCP: Bool, port: UInt16)? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == "tcp" || parts[0] == "udp", let port = UInt16(parts[1]), port > 0 else {
            return nil
        }
        return (parts[0] == "tcp", port)
    }

    /// - Throws: what is wrong with the file, and where.
    init(json: [UInt8]) throws(CommandFailure) {
        do {
            self = try JSONDecoder().decode(ServerConfiguration.self, from: Data(json))
        } catch let error as DecodingError {
            let (place, words) = error.problem
            let prefix = place.isEmpty ? "" : "\(place): "
            throw CommandFailure("\(Self.name): \(prefix)\(words)", status: ExitStatus.usage)
        } catch {
            throw CommandFailure("\(Self.name): \(error)", status: ExitStatus.usage)
        }
        if let problem { throw CommandFailure("\(Self.name): \(problem)", status: ExitStatus.usage) }
    }

    /// The file's text, each setting in it.
    func text() throws(CommandFailure) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { throw CommandFailure("\(Self.name) cannot be written") }
        return Array(data) + [UInt8(ascii: "\n")]
    }
}
