// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import FoundationEssentials
import TrustPinning
import TrustPinningNIO
import TunnelSystem

/// Runs `culvert pin rehearse`: evaluates a server's next key or certificate. Functions return the exit status.
struct PinRehearsal: Sendable {
    var environment: PinEnvironment
    var host: String?
    var issuers: String?
    var date: String?
    var environmentName: String?
    var roots: String?
    var json = false

    private var console: Console { environment.console }

    private struct Result {
        var passes: Bool
        var reason: String
        var matched: [Pin]
        var notes: [String]
    }

    func run(_ policy: String, _ file: String) async -> Int32 {
        do throws(PinToolError) {
            let policies = try environment.policies(policy, environment: environmentName).policies
            let host = try host(of: policies, policy)
            let now = try day()
            guard let pinned = policies.policy(for: host) else {
                throw PinToolError("\(policy): the policy has no pins for \(host)")
            }
            let sources = try environment.keySources(file)
            var others = sources.dropFirst().compactMap(\.certificate)
            if let issuers { others += try environment.certificates(issuers) }
            guard let next = sources.first else {
                throw PinToolError("\(file): the file contains no key or certificate")
            }
            var result: Result
            if let certificate = next.certificate {
                let trust = TrustEvaluator(policies: policies, systemTrust: try environment.systemTrust(roots: roots))
                let decision = await trust.evaluate(chain: [certificate] + others, host: host.description, at: now)
                let judgement = PinJudgement(decision, policy: pinned)
                result = Result(
                    passes: judgement.passes, reason: judgement.reason, matched: decision.matchedPins,
                    notes: judgement.notes)
            } else {
                result = PinRehearsal.evaluate(next, others, pinned, at: now)
            }
            result.notes += PinRehearsal.backupNotes(pinned, after: next.keyHash)
            report(result, host, next, now)
            return result.passes ? ExitStatus.success : ExitStatus.failure
        } catch {
            return environment.fail(error)
        }
    }

    private func host(of policies: PolicySet, _ policy: String) throws(PinToolError) -> HostName {
        if let host { return try PinTarget(host).host }
        let hosts = PinCheck.exactHosts(of: policies)
        guard hosts.count == 1 else {
            throw PinToolError("\(policy): the policy lists \(hosts.count) exact hosts; select one with --host")
        }
        return try PinTarget(hosts[0]).host
    }

    private func day() throws(PinToolError) -> Date {
        guard let date else { return environment.now }
        guard let seconds = Timestamp.parse(date) else {
            throw PinToolError("'\(date)' is not a valid date; use the form 2027-01-31 or 2027-01-31T12:00:00Z")
        }
        return Date(timeIntervalSince1970: Double(seconds))
    }

    /// Evaluates a key without a certificate.
    private static func evaluate(
        _ key: KeySource, _ issuers: [[UInt8]], _ policy: PinningPolicy, at date: Date
    ) -> Result {
        var matched = policy.pins.filter { $0.kind == .spki && $0.canMatchLeaf && $0.hash == key.keyHash }
        var notes: [String] = []
        if policy.requiresSystemTrust {
            let fields = issuers.compactMap { try? CertificateFields($0) }
            let fromIssuers = policy.pins.filter { pin in
                pin.scope != .leaf
                    && fields.contains {
                        pin.kind == .certificate ? $0.certificateHash == pin.hash : $0.keyHash == pin.hash
                    }
            }
            if matched.isEmpty, !fromIssuers.isEmpty { notes.append("it passes through its issuer, with any key") }
            matched += fromIssuers.filter { !matched.contains($0) }
            notes.append("it also needs a certificate for the key from an authority that the system trusts")
        }
        if let expiry = policy.expiry, date >= expiry.date {
            return Result(
                passes: false, reason: "the pins expired on \(PinDates.text(expiry.date))", matched: [], notes: [])
        }
        guard !matched.isEmpty else {
            let untried = policy.pins.contains { $0.scope != .leaf && $0.kind != .certificate } && issuers.isEmpty
            let hint = untried && policy.requiresSystemTrust
            let mistake = Pin.carriedOverHint(
                policy.pins,
                issuers: issuers.compactMap { try? CertificateFields($0) }.map { ($0.keyHash, $0.certificateHash) })
            return Result(
                passes: false, reason: "no pin matches" + (mistake.map { "; \($0)" } ?? ""), matched: [],
                notes: hint ? ["pins of authorities were not compared: pass their certificates with --issuers"] : [])
        }
        let names = matched.map { "\($0.role.rawValue) \($0.kind.rawValue) pin \($0.hash)" }
        return Result(passes: true, reason: "matches " + names.joined(separator: ", "), matched: matched, notes: notes)
    }

    /// Returns a note if no backup is left for the next change.
    private static func backupNotes(_ policy: PinningPolicy, after key: PinHash) -> [String] {
        let left = policy.pins.filter { $0.role == .backup && $0.hash != key }
        guard left.isEmpty else { return [] }
        return ["no backup is left after this change: first ship a policy with a new backup"]
    }

    private func report(_ result: Result, _ host: HostName, _ next: KeySource, _ date: Date) {
        guard !json else {
            let document: JSON = [
                "host": .string(host.description), "passes": .bool(result.passes), "reason": .string(result.reason),
                "date": .string(PinDates.text(date)), "spki": .string(next.keyHash.description),
                "key": .string(next.keyDescription), "matchedPins": .array(result.matched.map { JSON($0) }),
                "notes": .array(result.notes.map { .string($0) }),
            ]
            console.line(document.text)
            return
        }
        console.line("\(result.passes ? "PASSES" : "FAILS")  \(host)  \(result.reason)")
        console.line("  key   \(next.keyDescription), \(next.keyHash)")
        for note in result.notes { console.line("  note: \(note)") }
    }
}
