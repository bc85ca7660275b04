// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PasswordHashing
import TunnelServer
import TunnelSystem

// Written and read with all settings; what is missing is as it is by default, and what is not known is refused.

extension EndpointText: Codable {
    init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let address = try? EndpointAddress(text) else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "'\(text)' is not HOST:PORT"))
        }
        value = address
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value.description)
    }
}

private struct EndpointText {
    var value: EndpointAddress
}

extension GatewaySettings.AddKey: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable { case isEnabled, listener, idleKeySeconds }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.settings(CodingKeys.self)
        self.init()
        try values.take(.isEnabled, &isEnabled)
        try values.take(.listener, &listener)
        try values.take(.idleKeySeconds, &idleKeySeconds)
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(isEnabled, forKey: .isEnabled)
        try values.encode(listener, forKey: .listener)
        try values.encode(idleKeySeconds, forKey: .idleKeySeconds)
    }
}

extension GatewaySettings.LoginTunnel: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case isEnabled, port, interface, sessionsPerUser, leaseSeconds, sessionLifetimeSeconds
        case passwordCost
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.settings(CodingKeys.self)
        self.init()
        try values.take(.isEnabled, &isEnabled)
        try values.take(.port, &port)
        try values.take(.interface, &interface)
        try values.take(.sessionsPerUser, &sessionsPerUser)
        try values.take(.leaseSeconds, &leaseSeconds)
        try values.take(.sessionLifetimeSeconds, &sessionLifetimeSeconds)
        try values.take(.passwordCost, &passwordCost)
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(isEnabled, forKey: .isEnabled)
        try values.encode(port, forKey: .port)
        try values.encode(interface, forKey: .interface)
        try values.encode(sessionsPerUser, forKey: .sessionsPerUser)
        try values.encode(leaseSeconds, forKey: .leaseSeconds)
        try values.encode(sessionLifetimeSeconds, forKey: .sessionLifetimeSeconds)
        try values.encode(passwordCost, forKey: .passwordCost)
    }
}

extension GatewaySettings: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case label, host, api, admin, adminTLS, socket, addKey, loginTunnel
        case servesWireGuard, interface, wireGuardPort, addresses, endpoints, dns, searchDomains, routes, mtu,
            keepaliveSeconds
        case usesPresharedKeys, ipv4, ipv6, services, answersPings, allowedNetworks, otherInterfaces
        case deviceLifetimeSeconds, renewAfterSeconds, invitationLifetimeSeconds, tokenLifetimeSeconds
        case addressRestSeconds, serverKeyOverlapSeconds, auditLifetimeSeconds, devicesPerUser, devices, failures
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.settings(CodingKeys.self)
        self.init()
        try values.take(.label, &label)
        try values.take(.host, &host)
        try values.take(.api, &api)
        try values.take(.admin, &admin)
        adminTLS = try values.decodeIfPresent(CertificateFiles.self, forKey: .adminTLS)
        try values.take(.socket, &socket)
        try values.take(.addKey, &addKey)
        try values.take(.loginTunnel, &loginTunnel)
        try values.take(.servesWireGuard, &servesWireGuard)
        try values.take(.interface, &interface)
        try values.take(.wireGuardPort, &wireGuardPort)
        try values.take(.addresses, &addresses)
        endpoints = try (values.decodeIfPresent([EndpointText].self, forKey: .endpoints) ?? []).map(\.value)
        try values.take(.dns, &dns)
        try values.take(.searchDomains, &searchDomains)
        try values.take(.routes, &routes)
        try values.take(.mtu, &mtu)
        try values.take(.keepaliveSeconds, &keepaliveSeconds)
        try values.take(.usesPresharedKeys, &usesPresharedKeys)
        try values.take(.ipv4, &ipv4)
        try values.take(.ipv6, &ipv6)
        try values.take(.services, &services)
        try values.take(.answersPings, &answersPings)
        try values.take(.allowedNetworks, &allowedNetworks)
        try values.take(.otherInterfaces, &otherInterfaces)
        try values.take(.deviceLifetimeSeconds, &deviceLifetimeSeconds)
        try values.take(.renewAfterSeconds, &renewAfterSeconds)
        try values.take(.invitationLifetimeSeconds, &invitationLifetimeSeconds)
        try values.take(.tokenLifetimeSeconds, &tokenLifetimeSeconds)
        try values.take(.addressRestSeconds, &addressRestSeconds)
        try values.take(.serverKeyOverlapSeconds, &serverKeyOverlapSeconds)
        try values.take(.auditLifetimeSeconds, &auditLifetimeSeconds)
        try values.take(.devicesPerUser, &devicesPerUser)
        try values.take(.devices, &devices)
        try values.take(.failures, &failures)
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(label, forKey: .label)
        try values.encode(host, forKey: .host)
        try values.encode(api, forKey: .api)
        try values.encode(admin, forKey: .admin)
        try values.encodeIfPresent(adminTLS, forKey: .adminTLS)
        try values.encode(socket, forKey: .socket)
        try values.encode(addKey, forKey: .addKey)
        try values.encode(loginTunnel, forKey: .loginTunnel)
        try values.encode(servesWireGuard, forKey: .servesWireGuard)
        try values.encode(interface, forKey: .interface)
        try values.encode(wireGuardPort, forKey: .wireGuardPort)
        try values.encode(addresses, forKey: .addresses)
        try values.encode(endpoints.map(EndpointText.init(value:)), forKey: .endpoints)
        try values.encode(dns, forKey: .dns)
        try values.encode(searchDomains, forKey: .searchDomains)
        try values.encode(routes, forKey: .routes)
        try values.encode(mtu, forKey: .mtu)
        try values.encode(keepaliveSeconds, forKey: .keepaliveSeconds)
        try values.encode(usesPresharedKeys, forKey: .usesPresharedKeys)
        try values.encode(ipv4, forKey: .ipv4)
        try values.encode(ipv6, forKey: .ipv6)
        try values.encode(services, forKey: .services)
        try values.encode(answersPings, forKey: .answersPings)
        try values.encode(allowedNetworks, forKey: .allowedNetworks)
        try values.encode(otherInterfaces, forKey: .otherInterfaces)
        try values.encode(deviceLifetimeSeconds, forKey: .deviceLifetimeSeconds)
        try values.encode(renewAfterSeconds, forKey: .renewAfterSeconds)
        try values.encode(invitationLifetimeSeconds, forKey: .invitationLifetimeSeconds)
        try values.encode(tokenLifetimeSeconds, forKey: .tokenLifetimeSeconds)
        try values.encode(addressRestSeconds, forKey: .addressRestSeconds)
        try values.encode(serverKeyOverlapSeconds, forKey: .serverKeyOverlapSeconds)
        try values.encode(auditLifetimeSeconds, forKey: .auditLifetimeSeconds)
        try values.encode(devicesPerUser, forKey: .devicesPerUser)
        try values.encode(devices, forKey: .devices)
        try values.encode(failures, forKey: .failures)
    }

    /// - Throws: what is wrong with the file, and where.
    package init(json: [UInt8]) throws(GatewayError) {
        do {
            self = try JSONDecoder().decode(GatewaySettings.self, from: Data(json))
        } catch let error as DecodingError {
            let (place, words) = error.problem
            throw .invalid(field: place.isEmpty ? Self.fileName : "\(Self.fileName): \(place)", problem: words)
        } catch {
            throw .invalid(field: Self.fileName, problem: "\(error)")
        }
        if let problem { throw .invalid(field: "\(Self.fileName): \(problem.field)", problem: problem.words) }
    }

    /// The file's text, each setting in it.
    package func text() throws(GatewayError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { throw .unavailable("\(Self.fileName) cannot be written") }
        return Array(data) + [UInt8(ascii: "\n")]
    }
}
