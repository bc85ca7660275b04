// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension PolicySet {
    /// Returns the hosts for which these policies accept a connection that `other` refuses; empty if there are none.
    ///
    /// The patterns of both sets divide all hosts into groups. Each exact host is a group. Each name of a pattern
    /// defines three groups: the name itself, the hosts one level below it, and the hosts further below it that no
    /// longer pattern matches. All other hosts form the last group. In each set, one rule applies to all hosts of a
    /// group, so it is enough to compare one host of each group.
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
            // The name is too long. If the label has only one character, no host of this group exists.
            guard let host = try? HostName(text) else { return label.utf8.count > 1 }
            return !rule(for: host).isAtLeastAsTight(as: other.rule(for: host))
        }
    }

    /// Returns the shortest label that no pattern contains, which represents all other hosts. If the label were fixed,
    /// an author of new policies could list exactly that label, and only that host would be compared.
    private static func label(in patterns: [HostPattern]) -> String {
        var taken: Set<Substring> = []
        for pattern in patterns { taken.formUnion(pattern.host.description.split(separator: ".")) }
        var number = 0
        while true {
            let label = String(number, radix: 36)
            // A label may consist of digits, because a name that begins with such a label is not an IP address.
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
    /// Whether each chain with system trust is accepted before the pins expire, whatever the pins.
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
        // If the old policy already accepts each trusted chain, an expiry cannot loosen it; an expiry that refuses
        // never loosens.
        guard let expiry, expiry.afterwards == .systemTrust, !old.acceptsAllTrusted else { return true }
        guard let oldExpiry = old.expiry else { return false }
        return expiry.date >= oldExpiry.date
    }
}
