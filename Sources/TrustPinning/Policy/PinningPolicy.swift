// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The pins of a host, and what follows when they match or do not.
///
/// *System trust* means that the platform, or the roots it was given, vouch for the chain: signatures up to a root,
/// validity, name constraints, the host's name, and the use for servers. An untrusted chain is refused in every mode,
/// with one exception that a policy has to ask for: see ``requiresSystemTrust``.
public struct PinningPolicy: Sendable, Hashable {
    /// What follows when no pin matches.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// The connection is refused, unless ``PinningPolicy/allowsSystemTrustFallback`` is set and the chain has system
        /// trust. It takes two distinct pins, one of them a backup.
        case strict
        /// System trust alone decides. Pins are compared and mismatches reported: this is how pins are tried out. It may
        /// have no pins at all.
        case audit
        /// A chain is accepted that a pin matches or that has system trust; mismatches are reported. It takes one pin.
        case permissive
    }

    /// When the pins stop being used.
    public struct Expiry: Sendable, Hashable {
        /// What follows from then on.
        public enum Afterwards: String, Sendable, Hashable, CaseIterable {
            /// System trust alone decides, and each decision says so. A forgotten app goes on working.
            case systemTrust
            /// Everything is refused.
            case refuse
        }

        /// The moment. It is compared with the later of the clock and the newest signed issue time, so that a clock that
        /// is set back does not bring expired pins back.
        public var date: Date
        /// What follows from then on.
        public var afterwards: Afterwards

        /// Expires pins at `date`.
        public init(_ date: Date, afterwards: Afterwards = .systemTrust) {
            self.date = date
            self.afterwards = afterwards
        }
    }

    /// What is accepted. Their order is that in which matches are listed, and means nothing else.
    public let pins: [Pin]
    /// What follows when no pin matches.
    public let mode: Mode
    /// Whether a chain needs system trust even if a pin matches. If not, a chain without it is accepted when a pin
    /// matches the leaf itself, and the leaf is valid on the day, for the host, and for servers. Pins of other
    /// certificates do not count then: nobody vouches that they signed the leaf.
    public let requiresSystemTrust: Bool
    /// Whether a chain with system trust is accepted that no pin matches, in the mode `strict`. Such a decision is
    /// reported as what it is.
    public let allowsSystemTrustFallback: Bool
    /// When the pins stop being used; nil for never.
    public let expiry: Expiry?

    /// Checks and makes a policy.
    ///
    /// - Parameters:
    ///   - pins: at least two with distinct hashes and one backup for `strict`; at least one for `permissive`.
    ///   - mode: what follows when no pin matches.
    ///   - requiresSystemTrust: false only for servers with certificates of their own making, with a pin of the leaf.
    ///   - allowsSystemTrustFallback: accepts trusted chains that no pin matches; for `strict` only.
    ///   - expiry: when the pins stop being used.
    /// - Throws: ``PolicyError`` with every problem.
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

    /// The most pins of one policy.
    static let maximumPins = 64

    static func problems(
        pins: [Pin], mode: Mode, requiresSystemTrust: Bool, allowsSystemTrustFallback: Bool
    ) -> [PolicyProblem] {
        var problems: [PolicyProblem] = []
        if pins.count > maximumPins { problems.append(PolicyProblem("pins", "there are more than \(maximumPins)")) }
        if Set(pins).count < pins.count { problems.append(PolicyProblem("pins", "a pin occurs twice")) }
        let hashes = Set(pins.map(\.hash))
        let primaries = Set(pins.filter { $0.role == .primary }.map(\.hash))
        let backups = Set(pins.filter { $0.role == .backup }.map(\.hash))
        switch mode {
        case .strict:
            if hashes.count < 2 {
                let reason = "a policy that enforces its pins has two that are distinct, this one has \(hashes.count)"
                problems.append(
                    PolicyProblem("pins", reason + ": with one, the app stops working when its key is lost"))
            }
            if backups.isEmpty {
                let reason = "none is a backup: make a key, keep it offline, and pin it with the role backup"
                problems.append(PolicyProblem("pins", reason))
            }
        case .permissive:
            if hashes.isEmpty {
                problems.append(PolicyProblem("pins", "a permissive policy has at least one; audit may have none"))
            }
        case .audit:
            if !requiresSystemTrust {
                let reason = "in the mode audit system trust alone decides, so it has to be required"
                problems.append(PolicyProblem("requiresSystemTrust", reason))
            }
        }
        if !primaries.isDisjoint(with: backups) {
            problems.append(PolicyProblem("pins", "a hash is both primary and backup: it is no backup for itself"))
        }
        if mode != .strict, allowsSystemTrustFallback {
            let reason = "the mode \(mode.rawValue) accepts trusted chains anyway: this is for the mode strict"
            problems.append(PolicyProblem("allowsSystemTrustFallback", reason))
        }
        if mode != .audit, !requiresSystemTrust, !pins.contains(where: \.canMatchLeaf) {
            let reason =
                "without system trust only pins of the leaf count, and there is none: pin the leaf's key, or give the "
                + "authority's certificate as a root"
            problems.append(PolicyProblem("requiresSystemTrust", reason))
        }
        return problems
    }
}
