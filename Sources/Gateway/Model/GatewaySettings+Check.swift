// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PasswordHashing
import Provisioning
import TunnelServer
import TunnelSystem

extension GatewaySettings {
    /// The first setting that is outside its bounds or conflicts with another, or `nil` if the settings are valid.
    package var problem: (field: String, words: String)? {
        do throws(ContractError) { try Self.message.check(self) } catch { return (error.field, error.problem) }
        if adminTLS == nil,
            let open = admin.addresses.first(where: { address in
                !address.isLoopback && !addresses.contains { $0.address == address }
            })
        {
            return ("admin", "must be on loopback or in the tunnel without adminTLS, not on \(open)")
        }
        return tunnelProblem ?? loginTunnelProblem
    }

    /// The warning if there are fewer addresses than permitted devices, or `nil` if there are enough.
    package var poolWarning: String? {
        let ranges = addresses.compactMap { try? AddressRange(server: $0) }
        guard let smallest = ranges.min(by: { $0.capacity < $1.capacity }), smallest.capacity < devices else {
            return nil
        }
        return
            "'devices' permits \(devices) devices, but \(smallest.network) has \(smallest.capacity) addresses for them: "
            + "the gateway refuses any further device or login"
    }

    private var tunnelProblem: (field: String, words: String)? {
        let families = addresses.map(\.isIPv6)
        if families.count != Set(families).count {
            return ("addresses", "must contain one IPv4 address, one IPv6 address or both, such as 10.66.0.1/16")
        }
        for address in addresses {
            guard address.peer == nil, Self.isHost(address.address) else {
                return ("addresses", "a gateway cannot have \(address)")
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
            return (
                "loginTunnel.passwordCost",
                "n must be a power of two up to 1048576, and 128*n*r*p must not exceed 256 MiB"
            )
        }
        guard loginTunnel.isEnabled else {
            return servesWireGuard
                ? nil
                : ("servesWireGuard", "must be true unless loginTunnel.isEnabled is true")
        }
        if !servesWireGuard && addKey.isEnabled {
            return ("addKey.isEnabled", "must be false if servesWireGuard is false")
        }
        if servesWireGuard && loginTunnel.port == wireGuardPort {
            return ("loginTunnel.port", "must differ from wireGuardPort: both are UDP")
        }
        if servesWireGuard && loginTunnel.interface == interface {
            return ("loginTunnel.interface", "must differ from the interface of WireGuard")
        }
        // The login tunnel's protocol has these limits.
        if routes.count > 16 { return ("routes", "must not be more than 16 with the login tunnel") }
        if keepaliveSeconds > 3600 { return ("keepaliveSeconds", "must be from 0 to 3600 with the login tunnel") }
        return nil
    }

    private static func isHost(_ address: IPAddress) -> Bool {
        !address.isUnspecified && !address.isLoopback && !address.isMulticast && !address.isBroadcast
    }
}
