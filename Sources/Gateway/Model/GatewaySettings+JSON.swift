// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
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

extension GatewaySettings: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case label, host, api, admin, adminTLS, socket, addKey, login
        case interface, wireGuardPort, addresses, endpoints, dns, searchDomains, routes, mtu, keepaliveSeconds
        case usesPresharedKeys, ipv4, ipv6, services, answersPings, allowedNetworks, otherInterfaces
        case deviceLifetimeSeconds, renewAfterSeconds, invitationLifetimeSeconds, tokenLifetimeSeconds
        case addressRestSeconds, serverKeyOverlapSeconds, auditLifetimeSeconds, devicesPerUser, devices, failures
    }

    private struct AnyKey: CodingKey {
        let stringValue: String
        let intValue: Int? = nil
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    package init(from decoder: any Decoder) throws {
        let known = Set(CodingKeys.allCases.map(\.rawValue))
        if let key = try decoder.container(keyedBy: AnyKey.self).allKeys.first(where: {
            !known.contains($0.stringValue)
        }) {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [key], debugDescription: "nothing is called so: known are \(known.sorted())"))
        }
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func take<Value: Decodable>(_ key: CodingKeys, _ value: inout Value) throws {
            value = try values.decodeIfPresent(Value.self, forKey: key) ?? value
        }
        self.init()
        try take(.label, &label)
        try take(.host, &host)
        try take(.api, &api)
        try take(.admin, &admin)
        adminTLS = try values.decodeIfPresent(CertificateFiles.self, forKey: .adminTLS)
        try take(.socket, &socket)
        try take(.addKey, &addKey)
        try take(.login, &login)
        try take(.interface, &interface)
        try take(.wireGuardPort, &wireGuardPort)
        try take(.addresses, &addresses)
        endpoints = try (values.decodeIfPresent([EndpointText].self, forKey: .endpoints) ?? []).map(\.value)
        try take(.dns, &dns)
        try take(.searchDomains, &searchDomains)
        try take(.routes, &routes)
        try take(.mtu, &mtu)
        try take(.keepaliveSeconds, &keepaliveSeconds)
        try take(.usesPresharedKeys, &usesPresharedKeys)
        try take(.ipv4, &ipv4)
        try take(.ipv6, &ipv6)
        try take(.services, &services)
        try take(.answersPings, &answersPings)
        try take(.allowedNetworks, &allowedNetworks)
        try take(.otherInterfaces, &otherInterfaces)
        try take(.deviceLifetimeSeconds, &deviceLifetimeSeconds)
        try take(.renewAfterSeconds, &renewAfterSeconds)
        try take(.invitationLifetimeSeconds, &invitationLifetimeSeconds)
        try take(.tokenLifetimeSeconds, &tokenLifetimeSeconds)
        try take(.addressRestSeconds, &addressRestSeconds)
        try take(.serverKeyOverlapSeconds, &serverKeyOverlapSeconds)
        try take(.auditLifetimeSeconds, &auditLifetimeSeconds)
        try take(.devicesPerUser, &devicesPerUser)
        try take(.devices, &devices)
        try take(.failures, &failures)
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
        try values.encode(login, forKey: .login)
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
            throw Self.problem(error)
        } catch {
            throw .invalid(field: Self.fileName, problem: "\(error)")
        }
        if let problem { throw .invalid(field: "\(Self.fileName): \(problem.field)", problem: problem.words) }
    }

    private static func problem(_ error: DecodingError) -> GatewayError {
        func invalid(_ path: [any CodingKey], _ problem: String) -> GatewayError {
            let path = path.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
            return .invalid(field: path.isEmpty ? fileName : "\(fileName): \(path)", problem: problem)
        }
        return switch error {
        case .dataCorrupted(let context), .typeMismatch(_, let context), .valueNotFound(_, let context):
            invalid(
                context.codingPath, context.codingPath.isEmpty ? "this is no JSON object" : context.debugDescription)
        case .keyNotFound(let key, let context): invalid(context.codingPath + [key], "it is missing")
        @unknown default: invalid([], "it cannot be read")
        }
    }

    /// The file's text, each setting in it.
    package func text() throws(GatewayError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { throw .unavailable("\(Self.fileName) cannot be written") }
        return Array(data) + [UInt8(ascii: "\n")]
    }
}
