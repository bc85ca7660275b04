// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelSystem

// The output for tunnels whose settings a gateway assigns. `culvert-enroll` creates their profiles.
extension ProfileTool {
    /// An enrolled tunnel as lines.
    static func lines(_ configuration: EnrolledTunnelConfiguration) -> [String] {
        var lines = configuration.gateways.map { "Gateway = \($0.authority)" }
        if let id = configuration.deviceID { lines.append("Device = \(id)") }
        lines.append("Enrolment = \(hiddenSecret)")
        func add(_ key: String, _ values: [some CustomStringConvertible]) {
            if !values.isEmpty { lines.append("\(key) = \(values.map(\.description).joined(separator: ", "))") }
        }
        add("DNS", configuration.customDNSServers)
        add("Routes", configuration.routes ?? [])
        add("AllowedNetworks", configuration.allowedNetworks)
        return lines
    }

    /// The same as JSON.
    static func json(_ configuration: EnrolledTunnelConfiguration) -> JSON {
        [
            "gateways": .array(configuration.gateways.map { .string($0.authority) }),
            "device": configuration.deviceID.map { .string($0.description) } ?? .null,
            "dns": .array(configuration.customDNSServers.map { .string($0.description) }),
            "routes": configuration.routes.map { .array($0.map { .string($0.description) }) } ?? .null,
            "allowsLocalNetwork": .bool(configuration.allowsLocalNetwork),
            "allowedNetworks": .array(configuration.allowedNetworks.map { .string($0.description) }),
            "connectivity": configuration.connectivity.json,
        ]
    }
}

extension ServiceReport {
    /// Copies the gateway's settings from a status reply.
    mutating func update(from reply: EnrolmentStatusRequest.Reply?) {
        guard let reply else { return }
        enrolment = reply
        publicKey = reply.publicKey
        addresses = reply.addresses.map(\.description)
        routes = reply.routes.map(\.description)
        dnsServers = reply.dns.map(\.description)
        searchDomains = reply.searchDomains
        mtu = reply.mtu
        peers = [
            Peer(
                publicKey: reply.serverKey, endpoint: reply.endpoint, allowedIPs: reply.routes.map(\.description),
                persistentKeepalive: reply.keepaliveSeconds)
        ]
    }
}
