// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension EnrolmentGrant {
    /// Checks that no endpoint, name server or route is the device itself, a group of hosts, or the metadata service of
    /// a cloud, which may return credentials of the device's host.
    /// - Parameter allowsLoopback: Whether servers may be on this machine, because the gateway is on this machine.
    /// - Throws: ``ContractError`` for the first address that is not allowed.
    func checkAddresses(allowsLoopback: Bool) throws(ContractError) {
        for (index, server) in servers.enumerated() {
            for (place, endpoint) in server.endpoints.enumerated() {
                let field = "servers[\(index)].endpoints[\(place)]"
                if LocalAddresses.isLoopback(endpoint.host) {
                    guard allowsLoopback else {
                        throw ContractError(field: field, problem: "must not be this machine: \(endpoint.host)")
                    }
                } else if let kind = LocalAddresses.address(endpoint.host).flatMap(LocalAddresses.kind) {
                    throw ContractError(field: field, problem: "\(endpoint.host) is \(kind)")
                }
            }
        }
        for (index, address) in addresses.enumerated() {
            guard let kind = LocalAddresses.kind(of: address) else { continue }
            throw ContractError(field: "addresses[\(index)]", problem: "\(address) is \(kind)")
        }
        for (index, address) in dns.enumerated() {
            guard let kind = LocalAddresses.kind(of: address) else { continue }
            throw ContractError(field: "dns[\(index)]", problem: "\(address) is \(kind)")
        }
        for (index, route) in routes.enumerated() {
            guard let kind = LocalAddresses.kind(of: route) else { continue }
            throw ContractError(field: "routes[\(index)]", problem: "\(route) is \(kind)")
        }
    }
}

extension ProvisioningServer {
    /// Whether the server is on this machine.
    var isOnThisMachine: Bool { address.map(\.unmapped.isLoopback) ?? LocalAddresses.isLoopback(name) }
}
