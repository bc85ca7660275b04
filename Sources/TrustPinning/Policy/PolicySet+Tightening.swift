// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension PolicySet {
    /// Returns the hosts for which these policies accept a connection that `other` refuses; empty if there are none.
    ///
    /// The patterns of both sets divide all hosts into groups. Each exact host is a group. Each name of a pattern has
    /// three: the name itself, hosts one level below, and hosts further below that no longer pattern matches. All other
    /// hosts are the last group. In each set, all hosts of a group have the same rule, so one host of each group is
    /// compared.
    package func loosenings(comparedTo other: PolicySet) -> [String] {
        let patterns = (self.hosts + other.hosts).map(\.pattern)
        let label = Self.label(in: patterns)
        var hosts: Set<String> = []
        for pattern in patterns {
            let name = pattern.host.description
            hosts.insert(name)
            guard pattern.kind != .exact else { continue }
            hosts.insert("\(label).\(name)")
            hosts.insert("\(label).\(label).\(name)")
        }
        // Represents the hosts and addresses that no pattern matches.
        hosts.insert("\(label).\(label).invalid")
        return hosts.sorted().filter { text in
            // The name is too long: if the label has one character, no host of this group exists.
            guard let host = try? HostName(text) else { return label.utf8.count > 1 }
            return !rule(for: host).isAtLeastAsTight(as: other.rule(for: host))
        }
    }

    /// Returns the shortest label that no pattern contains, to represent all other hosts. With a fixed label, the
    /// author of new policies could list exactly that label, and only it would be compared.
    private static func label(in patterns: [HostPattern]) -> String {
        var taken: Set<Substring> = []
        for pattern in patterns { taken.formUnion(pattern.host.description.split(separator: ".")) }
        var number = 0
        while true {
            let label = String(number, radix: 36)
            // A label of digits only is allowed: a name that begins with one is not an IP address.
            if !taken.contains(Substring(label)) { return label }
            number += 1
        }
    }
}

extension PolicySet.Rule {
    fileprivate func isAtLeastAsTight(as other: PolicySet.Rule) -> Bool {
        switch (self, other) {
        case (.missing, _): true
        case (_, .missing): false
        case (.systemTrust, .systemTrust): true
        case (.systemTrust, .pinned): false
        case (.pinned(let policy, _), .systemTrust): policy.requiresSystemTrust
        case (.pinned(let policy, _), .pinned(let old, _)): policy.isAtLeastAsTight(as: old)
        }
    }
}

extension PinningPolicy {
    /// Whether each chain with system trust is accepted before the pins expire, with any pins.
    private var acceptsAllTrusted: Bool { mode != .strict || allowsSystemTrustFallback }

    fileprivate func isAtLeastAsTight(as old: PinningPolicy) -> Bool {
        if !requiresSystemTrust {
            guard !old.requiresSystemTrust, pins.filter(\.canMatchLeaf).allSatisfy(old.covers) else { return false }
            // Chains without system trust are refused after the pins expire, so the expiry must not become later.
            if let oldExpiry = old.expiry {
                guard let expiry, expiry.date <= oldExpiry.date else { return false }
            }
        }
        if !old.acceptsAllTrusted {
            guard !acceptsAllTrusted, pins.allSatisfy(old.covers) else { return false }
        }
        // An audit may have no pins, and then reports no mismatch.
        if old.mode != .audit, mode == .audit { return false }
        return expiresAtLeastAsTightly(as: old)
    }

    private func covers(_ pin: Pin) -> Bool {
        pins.contains { $0.kind == pin.kind && $0.hash == pin.hash && ($0.scope == pin.scope || $0.scope == .any) }
    }

    private func expiresAtLeastAsTightly(as old: PinningPolicy) -> Bool {
        if let oldExpiry = old.expiry, oldExpiry.afterwards == .refuse {
            guard let expiry, expiry.afterwards == .refuse else { return false }
            return expiry.date <= oldExpiry.date
        }
        // Old pins that already accept each trusted chain cannot be loosened by expiry; nor does refusing loosen.
        guard let expiry, expiry.afterwards == .systemTrust, !old.acceptsAllTrusted else { return true }
        guard let oldExpiry = old.expiry else { return false }
        return expiry.date >= oldExpiry.date
    }
}
