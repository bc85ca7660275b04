// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PasswordHashing
import Provisioning
import TunnelServer
import TunnelSystem

extension GatewaySettings {
    /// The first setting that is outside of its bounds or does not fit the others, or `nil` if the settings can be used.
    package var problem: (field: String, words: String)? {
        do throws(ContractError) { try Self.message.check(self) } catch { return (error.field, error.problem) }
        if adminTLS == nil,
            let open = admin.addresses.first(where: { address in
                !address.isLoopback && !addresses.contains { $0.address == address }
            })
        {
            return ("admin", "without adminTLS it listens on loopback and in the tunnel only, and not on \(open)")
        }
        return tunnelProblem ?? loginTunnelProblem
    }

    private var tunnelProblem: (field: String, words: String)? {
        let families = addresses.map(\.isIPv6)
        if families.count != Set(families).count {
            return ("addresses", "there is one of IPv4, of IPv6, or of both, such as 10.66.0.1/16")
        }
        for address in addresses {
            guard address.peer == nil, Self.isHost(address.address) else {
                return ("addresses", "no gateway can have \(address)")
            }
            do throws(AddressRangeError) { _ = try AddressRange(server: address) } catch {
                return ("addresses", "\(error)")
            }
        }
        if let server = dns.first(where: { !Self.isHost($0) }) { return ("dns", "devices cannot reach \(server)") }
        if mtu < 1280 && families.contains(true) { return ("mtu", "must be at least 1280 with IPv6") }
        return nil
    }

    private var loginTunnelProblem: (field: String, words: String)? {
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

    private static func isHost(_ address: IPAddress) -> Bool {
        !address.isUnspecified && !address.isLoopback && !address.isMulticast && !address.isBroadcast
    }
}
