// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

extension PolicySet {
    /// The policies as JSON for ``init(json:)-(String)``. Equal policies produce equal bytes.
    public var json: String {
        let unlisted: JSON =
            switch unlisted {
            case .refuse: "refuse"
            case .systemTrust: "systemTrust"
            case .pinned(let policy): .object(of: policy.members)
            }
        let document: JSON = [
            "version": .integer(1), "unlistedHosts": unlisted, "hosts": .array(hosts.map { .object(of: $0.members) }),
        ]
        return document.text + "\n"
    }
}

extension HostPolicy {
    fileprivate var members: [(String, JSON)] {
        var members: [(String, JSON)]
        switch pattern.kind {
        case .exact, .wildcard: members = [("host", .string(pattern.description))]
        case .subdomains: members = [("host", .string(pattern.host.description)), ("includeSubdomains", .bool(true))]
        }
        return members + (policy?.members ?? [("exclude", .bool(true))])
    }
}

extension PinningPolicy {
    fileprivate var members: [(String, JSON)] {
        var members: [(String, JSON)] = [("mode", .string(mode.rawValue))]
        if !requiresSystemTrust { members.append(("requiresSystemTrust", .bool(false))) }
        if allowsSystemTrustFallback { members.append(("allowsSystemTrustFallback", .bool(true))) }
        if let expiry {
            members.append(("expires", .string(Timestamp.text(expiry.date))))
            members.append(("afterExpiry", .string(expiry.afterwards.rawValue)))
        }
        let pins = pins.map { pin in
            JSON.object(of: [
                ("kind", .string(pin.kind.rawValue)), ("hash", .string(pin.hash.description)),
                ("role", .string(pin.role.rawValue)), ("scope", .string(pin.scope.rawValue)),
            ])
        }
        return members + [("pins", .array(pins))]
    }
}
