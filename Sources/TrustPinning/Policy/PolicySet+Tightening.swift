// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension PolicySet {
    /// Where these policies would accept a connection that others refuse; empty if nowhere.
    ///
    /// The patterns of both sets divide all hosts into kinds: each exact host; for each name of a pattern the name itself,
    /// hosts one level below and hosts further below that no longer pattern takes; and all others. Hosts of one kind have
    /// the same rule in each set, so one of each kind is compared.
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
        // Of no pattern, and an address of none.
        hosts.insert("\(label).\(label).invalid")
        return hosts.sorted().filter { text in
            // Longer than a name may be: no host is of this kind, if the label is as short as labels can be.
            guard let host = try? HostName(text) else { return label.utf8.count > 1 }
            return !rule(for: host).isAtLeastAsTight(as: other.rule(for: host))
        }
    }

    /// The shortest label that stands for any other host: one that no pattern has. With a fixed one, whoever writes the new
    /// policies could name it, and be compared there only.
    private static func label(in patterns: [HostPattern]) -> String {
        var taken: Set<Substring> = []
        for pattern in patterns { taken.formUnion(pattern.host.description.split(separator: ".")) }
        var number = 0
        while true {
            let label = String(number, radix: 36)
            // Names that end in a number are addresses, which these do not: they only begin with it.
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
    /// Whether each trusted chain is accepted, whatever the pins are, before the pins expire.
    private var acceptsAllTrusted: Bool { mode != .strict || allowsSystemTrustFallback }

    fileprivate func isAtLeastAsTight(as old: PinningPolicy) -> Bool {
        if !requiresSystemTrust {
            guard !old.requiresSystemTrust, pins.filter(\.canMatchLeaf).allSatisfy(old.covers) else { return false }
            // Once pins have expired, chains without system trust are refused: they may not be accepted for longer.
            if let oldExpiry = old.expiry {
                guard let expiry, expiry.date <= oldExpiry.date else { return false }
            }
        }
        if !old.acceptsAllTrusted {
            guard !acceptsAllTrusted, pins.allSatisfy(old.covers) else { return false }
        }
        // An audit that ends would no longer be heard of.
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
        // What accepts each trusted chain before loosens nothing afterwards; neither does refusing.
        guard let expiry, expiry.afterwards == .systemTrust, !old.acceptsAllTrusted else { return true }
        guard let oldExpiry = old.expiry else { return false }
        return expiry.date >= oldExpiry.date
    }
}
