// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TrustPinning
import TrustPinningTesting

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The chain of a server, with real certificates, and its roots and pins.
struct Situation: Sendable {
    let name: String
    let isTrusted: Bool
    /// The pin of the policy that matches.
    let match: Match
    /// Whether the leaf itself is valid for the host, the date and servers.
    let leafIsGood: Bool
    let chain: [[UInt8]]
    let roots: [[UInt8]]
    let primary: Pin
    let backup: Pin

    enum Match: Sendable {
        case leaf, authority, backup, none
    }

    static func all() throws -> [Situation] {
        let authority = try TestAuthority()
        let trusted = [authority.root.der]
        let stranger = [try TestAuthority("Stranger").root.der]
        let leaf = try Pin.of(authority.leaf.pin, scope: .leaf)
        let issuer = try Pin.of(authority.intermediate.pin, .ca)
        let other = try Pin.of(TestKey(.p256, "other").pin, scope: .leaf)
        let spare = try Pin.spare()
        func bad(_ change: (inout CertificateTemplate) -> Void) throws -> [[UInt8]] {
            let certificate = try authority.issue(CertificateTemplate().with(change), key: authority.leaf.key)
            return [certificate.der, authority.intermediate.der]
        }
        let good = authority.served
        return [
            Situation(
                name: "trusted, a pin of the leaf matches", isTrusted: true, match: .leaf, leafIsGood: true,
                chain: good, roots: trusted, primary: leaf, backup: spare),
            Situation(
                name: "trusted, a ca pin matches", isTrusted: true, match: .authority, leafIsGood: true, chain: good,
                roots: trusted, primary: issuer, backup: try .of(spare.hash.base64, role: .backup, scope: .leaf)),
            Situation(
                name: "trusted, only the backup matches", isTrusted: true, match: .backup, leafIsGood: true,
                chain: good, roots: trusted, primary: other, backup: try .of(authority.leaf.pin, role: .backup)),
            Situation(
                name: "trusted, no pin matches", isTrusted: true, match: .none, leafIsGood: true, chain: good,
                roots: trusted, primary: other, backup: spare),
            Situation(
                name: "unknown root, a pin of the leaf matches", isTrusted: false, match: .leaf, leafIsGood: true,
                chain: good, roots: stranger, primary: leaf, backup: spare),
            Situation(
                name: "unknown root, only a ca pin would match", isTrusted: false, match: .authority,
                leafIsGood: true, chain: good, roots: stranger, primary: issuer,
                backup: try .of(spare.hash.base64, role: .backup, scope: .leaf)),
            Situation(
                name: "unknown root, no pin matches", isTrusted: false, match: .none, leafIsGood: true, chain: good,
                roots: stranger, primary: other, backup: spare),
            Situation(
                name: "expired leaf, its pin matches", isTrusted: false, match: .leaf, leafIsGood: false,
                chain: try bad { $0.notAfter = TestDate(2026, 5, 1) }, roots: trusted, primary: leaf, backup: spare),
            Situation(
                name: "leaf of another host, its pin matches", isTrusted: false, match: .leaf, leafIsGood: false,
                chain: try bad { $0.dnsNames = ["other.example.com"] }, roots: trusted, primary: leaf, backup: spare),
            Situation(
                name: "leaf not for servers, its pin matches", isTrusted: false, match: .leaf, leafIsGood: false,
                chain: try bad { $0.usages = [.clientAuth] }, roots: trusted, primary: leaf, backup: spare),
        ]
    }
}

/// A policy without its pins.
struct PolicyShape: Sendable, CustomStringConvertible {
    enum Age: CaseIterable, Sendable {
        case valid, expiredToSystemTrust, expiredToRefuse
    }

    let mode: PinningPolicy.Mode
    let requiresSystemTrust: Bool
    let allowsFallback: Bool
    let age: Age

    static let all: [PolicyShape] = PinningPolicy.Mode.allCases.flatMap { mode in
        [true, false].flatMap { requires in
            [false, true].flatMap { fallback in
                Age.allCases.map {
                    PolicyShape(mode: mode, requiresSystemTrust: requires, allowsFallback: fallback, age: $0)
                }
            }
        }
    }

    /// Whether such a policy is valid, by the documented rule, independently of the code.
    var isPossible: Bool {
        switch mode {
        case .strict: true
        case .permissive: !allowsFallback
        case .audit: !allowsFallback && requiresSystemTrust
        }
    }

    func policy(_ pins: [Pin]) throws -> PinningPolicy {
        let past = TestDate(2026, 5, 1).date
        let expiry: PinningPolicy.Expiry? =
            switch age {
            case .valid: nil
            case .expiredToSystemTrust: PinningPolicy.Expiry(past, afterwards: .systemTrust)
            case .expiredToRefuse: PinningPolicy.Expiry(past, afterwards: .refuse)
            }
        return try PinningPolicy(
            pins: pins, mode: mode, requiresSystemTrust: requiresSystemTrust,
            allowsSystemTrustFallback: allowsFallback, expiry: expiry)
    }

    var description: String {
        var parts = ["`\(mode.rawValue)`"]
        parts.append(requiresSystemTrust ? "system trust required" : "system trust not required")
        if allowsFallback { parts.append("with fallback") }
        switch age {
        case .valid: break
        case .expiredToSystemTrust: parts.append("pins expired, then system trust")
        case .expiredToRefuse: parts.append("pins expired, then refuse")
        }
        return parts.joined(separator: ", ")
    }

    /// The required result, by the documentation and independently of the code.
    func expected(_ situation: Situation) -> (step: String, reason: TrustDecision.Reason) {
        if !situation.isTrusted {
            if requiresSystemTrust { return (mode == .permissive ? "3" : "4", .trustFailed) }
            if !situation.leafIsGood { return ("4", .trustFailed) }
        }
        switch age {
        case .expiredToRefuse: return ("expiry", .pinSetExpiredRefused)
        case .expiredToSystemTrust: return ("expiry", situation.isTrusted ? .pinSetExpired : .trustFailed)
        case .valid: break
        }
        switch (situation.match, situation.isTrusted) {
        case (.none, false), (.authority, false): return ("10", .pinningFailed)
        case (_, false): return ("7", .leafPinMatchWithoutSystemTrust)
        case (.none, true): break
        case (_, true): return ("7", .pinMatch)
        }
        if allowsFallback { return ("8", .pinMismatchAllowedByFallback) }
        switch mode {
        case .permissive: return ("9", .pinMismatchPermissive)
        case .audit: return ("9", .pinMismatchAudited)
        case .strict: return ("10", .pinningFailed)
        }
    }
}
