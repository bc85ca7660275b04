// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer

/// Checks relations between the members of requests. The declaration of a member has its own bounds.
enum InputValidation {
    static func end(_ end: Date?, after now: Date) throws(GatewayError) {
        guard let end else { return }
        guard end > now else { throw .invalid(field: "expiresAt", problem: "must be in the future") }
        // RFC 3339 has four digits for the year.
        guard end.timeIntervalSince1970 < 253_402_300_800 else {
            throw .invalid(field: "expiresAt", problem: "must not be after the year 9999")
        }
    }

    /// Checks a user's fixed addresses.
    static func addresses(
        _ addresses: [IPAddress], in servers: [InterfaceAddress]
    ) throws(GatewayError) {
        try Self.addresses(addresses)
        let ranges = servers.compactMap { try? AddressRange(server: $0) }
        for address in addresses where !ranges.contains(where: { $0.contains(address) }) {
            let networks = servers.map(\.network.description).joined(separator: " or ")
            throw .invalid(field: "addresses", problem: "clients cannot have \(address) in \(networks)")
        }
    }

    static func addresses(_ addresses: [IPAddress]) throws(GatewayError) {
        guard addresses.count(where: \.isIPv6) <= 1, addresses.count(where: { !$0.isIPv6 }) <= 1 else {
            throw .invalid(field: "addresses", problem: "must not contain more than one address of each family")
        }
    }

    static func subnets(_ subnets: [IPPrefix]) throws(GatewayError) {
        for subnet in subnets {
            let address = subnet.address
            guard subnet.length > 0, !address.isLoopback, !address.isMulticast, !address.isLinkLocal,
                !address.isUnspecified, !address.isBroadcast
            else { throw .invalid(field: "subnets", problem: "\(subnet) cannot be behind a device") }
        }
        for (index, subnet) in subnets.enumerated() {
            if subnets[..<index].contains(where: { $0.contains(subnet) || subnet.contains($0) }) {
                throw .invalid(field: "subnets", problem: "\(subnet) overlaps another subnet of the list")
            }
        }
    }

    /// Checks that devices still reach the gateway and its name servers if these subnets are behind another device. Endpoints with a
    /// name are not resolved.
    static func subnets(_ subnets: [IPPrefix], outside settings: GatewaySettings) throws(GatewayError) {
        let endpoints = (settings.endpoints.map(\.host) + [settings.host]).compactMap { try? IPAddress($0) }
        for subnet in subnets {
            for (what, addresses) in [("endpoint", endpoints), ("name server", settings.dns)] {
                guard let address = addresses.first(where: subnet.contains) else { continue }
                throw .invalid(
                    field: "subnets",
                    problem: "\(subnet) cannot be behind a device: the gateway's \(what) \(address) is in it")
            }
        }
    }

    static func rules(_ rules: [RuleDraft]) throws(GatewayError) {
        guard rules.count <= Rule.most else {
            throw .invalid(field: "rules", problem: "must not be more than \(Rule.most)")
        }
        for rule in rules {
            do throws(ContractError) { try rule.check(.create) } catch { throw GatewayError(error) }
            let transport = rule[dynamicMember: \.access.transport]
            guard rule[dynamicMember: \.access.ports]?.isEmpty ?? true || transport == .tcp || transport == .udp else {
                throw .invalid(field: "rules", problem: "ports need the transport tcp or udp")
            }
        }
    }
}
