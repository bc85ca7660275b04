// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelConfiguration {
    /// Returns every problem of the configuration, in the order of its fields; empty if the configuration is valid.
    ///
    /// The host checks the settings that depend on it: see `TunnelSettings.validate()`.
    public func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        func add(_ field: String, _ value: some CustomStringConvertible, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value.description, problem: problem, fix: fix))
        }
        if privateKeyName.isEmpty {
            add("privateKeyName", "", "is empty", fix: "name the secret that holds the private key")
        }
        problems += settings(leakPolicy: leakPolicy).validate().map(named)
        if let routeTable, routeTable == 0 || routeTable == 255 {
            add(
                "routeTable", routeTable, routeTable == 0 ? "must not be 0" : "is the kernel's local table",
                fix: "set 1 or higher, other than 255, or omit it")
        }
        if peers.isEmpty { add("peers", "", "has no peer", fix: "add the server") }
        var seen: [PublicKey: Int] = [:]
        for (index, peer) in peers.enumerated() {
            let field = "peers[\(index)]"
            let first = seen[peer.publicKey, default: index]
            seen[peer.publicKey] = first
            if first != index {
                add("\(field).publicKey", peer.publicKey, "is the same as peers[\(first)].publicKey", fix: "remove one")
            }
            if peer.publicKey.isZero { problems.append(.notPublicKey("\(field).publicKey", byteCount: 44)) }
            if presharedKeyNames[peer.publicKey] == "" {
                add("\(field).presharedKeyName", "", "is empty", fix: "name the secret, or leave it out")
            }
        }
        problems += connectivity.validate()
        for (name, value) in [("resolutionTimeout", resolutionTimeout), ("handshakeTimeout", handshakeTimeout)]
        where !(0.01...3600).contains(value) {
            add(name, value, "is not within 0.01 to 3600 seconds", fix: "leave it out for the default")
        }
        return problems
    }

    /// Makes the error for a configuration with these problems.
    static func invalid(_ problems: [SettingsProblem]) -> TunnelError {
        TunnelError(
            .configurationInvalid, "the tunnel's configuration cannot be used",
            fix: "correct the fields that are listed", problems: problems)
    }

    /// Returns the problem with the field's name in the configuration.
    private func named(_ problem: SettingsProblem) -> SettingsProblem {
        var problem = problem
        if problem.field.hasPrefix("includedRoutes") { problem.field = "peers.allowedIPs" }
        return problem
    }
}
