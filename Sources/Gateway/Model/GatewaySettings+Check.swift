// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PasswordHashing
import TunnelServer
import TunnelSystem

extension GatewaySettings {
    /// What is wrong with it; nil where it can be used.
    package var problem: (field: String, words: String)? {
        if label.count > 64 { return ("label", "it has 64 characters at most") }
        if let problem = hostProblem { return ("host", problem) }
        for (name, listener) in [("api", api), ("admin", admin), ("addKey.listener", addKey.listener)]
        where listener.addresses.isEmpty || listener.port == 0 {
            return (name, "it has addresses, and a port of 1 to 65535")
        }
        if adminTLS == nil,
            let open = admin.addresses.first(where: { address in
                !address.isLoopback && !addresses.contains { $0.address == address }
            })
        {
            return ("admin", "without adminTLS it listens on loopback and in the tunnel only, and not on \(open)")
        }
        if wireGuardPort == 0 { return ("wireGuardPort", "it is 1 to 65535") }
        if let problem = tunnelProblem { return problem }
        if let problem = loginTunnelProblem { return problem }
        if services.contains(where: { !Self.isService($0) }) { return ("services", "each is tcp/PORT or udp/PORT") }
        return numberProblem
    }

    private var hostProblem: String? {
        do throws(AddressTextError) {
            _ = try EndpointAddress(host: host, port: api.port == 0 ? 1 : api.port)
            return nil
        } catch {
            return "it is the name or address that devices reach the gateway at: \(error)"
        }
    }

    private var tunnelProblem: (field: String, words: String)? {
        if !(1...15).contains(interface.utf8.count) { return ("interface", "it has 1 to 15 characters") }
        let families = addresses.map(\.isIPv6)
        if addresses.isEmpty || families.count != Set(families).count {
            return ("addresses", "there is one of IPv4, of IPv6, or of both, such as 10.66.0.1/16")
        }
        for address in addresses {
            guard address.peer == nil, Self.isHost(address.address) else {
                return ("addresses", "no gateway can have \(address)")
            }
            do throws(AddressPoolError) { _ = try AddressRange(server: address) } catch {
                return ("addresses", "\(error)")
            }
        }
        if endpoints.count > 16 { return ("endpoints", "there are 16 at most") }
        if dns.count > Self.mostNameServers { return ("dns", "there are \(Self.mostNameServers) addresses at most") }
        if let server = dns.first(where: { !Self.isHost($0) }) { return ("dns", "devices cannot reach \(server)") }
        if searchDomains.count > 64 { return ("searchDomains", "there are 64 at most") }
        if routes.count > 1024 { return ("routes", "there are 1024 at most") }
        if !(576...65_535).contains(mtu) || (mtu < 1280 && families.contains(true)) {
            return ("mtu", "it is 576 to 65535, and 1280 at least with IPv6")
        }
        return nil
    }

    private var loginTunnelProblem: (field: String, words: String)? {
        if loginTunnel.port == 0 { return ("loginTunnel.port", "it is 1 to 65535") }
        if !(1...15).contains(loginTunnel.interface.utf8.count) {
            return ("loginTunnel.interface", "it has 1 to 15 characters")
        }
        if !(1...LoginTunnel.mostSessionsPerUser).contains(loginTunnel.sessionsPerUser) {
            return ("loginTunnel.sessionsPerUser", "must be between 1 and \(LoginTunnel.mostSessionsPerUser)")
        }
        if !loginTunnel.passwordCost.isValid {
            return ("loginTunnel.passwordCost", "n is a power of two up to 1048576, and 128*n*r*p at most 256 MiB")
        }
        guard loginTunnel.isEnabled else {
            return servesWireGuard
                ? nil
                : ("servesWireGuard", "without WireGuard there is the login tunnel: loginTunnel.isEnabled is true")
        }
        if !servesWireGuard && addKey.isEnabled {
            return ("addKey.isEnabled", "without WireGuard there is no addKey")
        }
        if servesWireGuard && loginTunnel.port == wireGuardPort {
            return ("loginTunnel.port", "WireGuard has it: both are UDP")
        }
        if servesWireGuard && loginTunnel.interface == interface {
            return ("loginTunnel.interface", "WireGuard has it")
        }
        // What an answer to a login has room for.
        if routes.count > 16 { return ("routes", "with the login tunnel there are 16 at most") }
        if keepaliveSeconds > 3600 { return ("keepaliveSeconds", "with the login tunnel it is 0 to 3600") }
        return nil
    }

    private var numberProblem: (field: String, words: String)? {
        let tenYears = 315_360_000
        let seconds = [
            ("deviceLifetimeSeconds", deviceLifetimeSeconds, 0), ("renewAfterSeconds", renewAfterSeconds, 1),
            ("invitationLifetimeSeconds", invitationLifetimeSeconds, 1),
            ("tokenLifetimeSeconds", tokenLifetimeSeconds, 0), ("addressRestSeconds", addressRestSeconds, 0),
            ("serverKeyOverlapSeconds", serverKeyOverlapSeconds, 0), ("auditLifetimeSeconds", auditLifetimeSeconds, 0),
            ("addKey.idleKeySeconds", addKey.idleKeySeconds, 60),
            // Longer than it takes until a session is told to be there.
            ("loginTunnel.leaseSeconds", loginTunnel.leaseSeconds, 120),
            ("loginTunnel.sessionLifetimeSeconds", loginTunnel.sessionLifetimeSeconds, 0),
            ("failures.longestSourceWait", failures.longestSourceWait, 1),
            ("failures.longestLoginWait", failures.longestLoginWait, 1), ("failures.memory", failures.memory, 1),
        ]
        for (name, value, least) in seconds where !(least...tenYears).contains(value) {
            return (name, "it is \(least) to \(tenYears) seconds, which are ten years")
        }
        for (name, value) in [
            ("devicesPerUser", devicesPerUser), ("devices", devices), ("failures.free", failures.free),
        ] where !(1...1_000_000).contains(value) {
            return (name, "it is 1 to 1000000")
        }
        return nil
    }

    private static func isHost(_ address: IPAddress) -> Bool {
        !address.isUnspecified && !address.isLoopback && !address.isMulticast && !address.isBroadcast
    }

    private static func isService(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 2 && (parts[0] == "tcp" || parts[0] == "udp")
            && UInt16(parts[1]).map { $0 > 0 } ?? false
    }
}
