// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The pins of a host, and the effect of a match or mismatch.
///
/// *System trust* means that the platform, or a verifier with given roots, accepts the chain: signatures up to a root,
/// validity, name constraints, the host's name, and that the certificate is for servers. An untrusted chain is refused
/// in every mode, unless a policy turns off ``requiresSystemTrust``.
public struct PinningPolicy: Sendable, Hashable {
    /// The effect if no pin matches.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// The connection is refused, unless ``PinningPolicy/allowsSystemTrustFallback`` is set and the chain has
        /// system trust. Requires pins with two distinct hashes, one of them a backup.
        case strict
        /// System trust alone decides. Pins are compared and mismatches are reported, to try out pins before enforcing
        /// them. Requires no pins.
        case audit
        /// A chain with system trust is accepted, with or without a matching pin; mismatches are reported. Without
        /// ``PinningPolicy/requiresSystemTrust``, a pin of the leaf is enough. Requires one pin.
        case permissive
    }

    /// The time at which the pins expire, and the effect.
    public struct Expiry: Sendable, Hashable {
        /// The rule after the pins have expired.
        public enum Afterwards: String, Sendable, Hashable, CaseIterable {
            /// System trust alone decides, and each decision reports the expiry. An app that is not updated continues
            /// to work.
            case systemTrust
            /// Each connection is refused.
            case refuse
        }

        /// The time of expiry. It is compared with the later of the clock and the newest signed issue time, so that
        /// setting the clock back does not reactivate expired pins.
        public var date: Date
        /// The rule after the pins have expired.
        public var afterwards: Afterwards

        /// Creates an expiry at `date`.
        public init(_ date: Date, afterwards: Afterwards = .systemTrust) {
            self.date = date
            self.afterwards = afterwards
        }
    }

    /// The accepted pins. Their order only determines the order in which matches are listed.
    public let pins: [Pin]
    /// The effect if no pin matches.
    public let mode: Mode
    /// Whether a chain needs system trust even if a pin matches. If `false`, a chain without system trust is accepted
    /// if a pin matches the leaf, and the leaf is valid for the date, the host, and servers. Pins of other certificates
    /// do not count for such a chain, because nothing proves that those certificates signed the leaf.
    public let requiresSystemTrust: Bool
    /// Whether the mode `strict` accepts a chain with system trust that no pin matches. The decision reports the
    /// fallback.
    public let allowsSystemTrustFallback: Bool
    /// The expiry of the pins, or `nil` if they do not expire.
    public let expiry: Expiry?

    /// Creates a policy after checking it.
    ///
    /// - Parameters:
    ///   - pins: At least two with distinct hashes, one of them a backup, for `strict`; at least one for `permissive`.
    ///   - mode: The effect if no pin matches.
    ///   - requiresSystemTrust: `false` only for servers with self-made certificates, with a pin of the leaf.
    ///   - allowsSystemTrustFallback: Whether to accept chains with system trust that no pin matches; for `strict`
    ///     only.
    ///   - expiry: The expiry of the pins.
    /// - Throws: ``PolicyError`` with all problems.
    public init(
        pins: [Pin], mode: Mode = .strict, requiresSystemTrust: Bool = true, allowsSystemTrustFallback: Bool = false,
        expiry: Expiry? = nil
    ) throws(PolicyError) {
        self.pins = pins
        self.mode = mode
        self.requiresSystemTrust = requiresSystemTrust
        self.allowsSystemTrustFallback = allowsSystemTrustFallback
        self.expiry = expiry
        let problems = Self.problems(
            pins: pins, mode: mode, requiresSystemTrust: requiresSystemTrust,
            allowsSystemTrustFallback: allowsSystemTrustFallback)
        if !problems.isEmpty { throw PolicyError(problems) }
    }

    /// The maximum number of pins of one policy.
    static let maximumPins = 64

    static func problems(
        pins: [Pin], mode: Mode, requiresSystemTrust: Bool, allowsSystemTrustFallback: Bool
    ) -> [PolicyProblem] {
        var problems: [PolicyProblem] = []
        if pins.count > maximumPins {
            problems.append(PolicyProblem("pins", "a policy must have at most \(maximumPins)"))
        }
        if Set(pins).count < pins.count { problems.append(PolicyProblem("pins", "a pin occurs twice")) }
        let hashes = Set(pins.map(\.hash))
        let primaries = Set(pins.filter { $0.role == .primary }.map(\.hash))
        let backups = Set(pins.filter { $0.role == .backup }.map(\.hash))
        switch mode {
        case .strict:
            if hashes.count < 2 {
                let reason = "a strict policy must have two distinct hashes, not \(hashes.count)"
                problems.append(
                    PolicyProblem("pins", reason + ": otherwise the app stops working if the key is lost"))
            }
            if backups.isEmpty {
                let reason = "no pin is a backup: generate a key, keep it offline, and pin it with the role backup"
                problems.append(PolicyProblem("pins", reason))
            }
        case .permissive:
            if hashes.isEmpty {
                problems.append(
                    PolicyProblem("pins", "a permissive policy must have at least one; audit may have none"))
            }
        case .audit:
            if !requiresSystemTrust {
                let reason = "must be true in the mode audit, where system trust alone decides"
                problems.append(PolicyProblem("requiresSystemTrust", reason))
            }
        }
        if !primaries.isDisjoint(with: backups) {
            problems.append(PolicyProblem("pins", "a hash must not be both primary and backup"))
        }
        if mode != .strict, allowsSystemTrustFallback {
            let reason = "must be false unless the mode is strict: \(mode.rawValue) accepts trusted chains anyway"
            problems.append(PolicyProblem("allowsSystemTrustFallback", reason))
        }
        if mode != .audit, !requiresSystemTrust, !pins.contains(where: \.canMatchLeaf) {
            let reason =
                "without system trust, a pin must match the leaf: pin the leaf's key, or use the "
                + "authority's certificate as a root"
            problems.append(PolicyProblem("requiresSystemTrust", reason))
        }
        return problems
    }
}
