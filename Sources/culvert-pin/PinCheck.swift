// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import FoundationEssentials
import TrustPinning
import TrustPinningNIO
import TunnelSystem

/// Runs `culvert pin check`: evaluates servers as an app with a policy would. Functions return the exit status.
struct PinCheck: Sendable {
    var environment: PinEnvironment
    /// The minimum number of days for which a server must pass.
    var days = 7
    var environmentName: String?
    var connect: String?
    var roots: String?
    var json = false

    private var console: Console { environment.console }

    private static let maximumConnections = 64

    /// The result for one server.
    struct Outcome: Sendable {
        enum Status: String, Sendable {
            case passes
            /// The server passes today, but for fewer days than required.
            case expiring
            case fails
            case unreachable
        }

        var target: PinTarget
        var status: Status
        /// The reason, in one line.
        var reason: String
        var decision: TrustDecision?
        /// The number of whole days for which the server passes, or `nil` if it fails.
        var days: Int?
        var notes: [String] = []
    }

    func run(_ policy: String, _ hosts: [String]) async -> Int32 {
        do {
            let configuration = try environment.policies(policy, environment: environmentName)
            let targets = try targets(hosts, configuration.policies, policy)
            let place = try connect.map { text throws(PinToolError) in try PinTarget.place(text) }
            let trust = TrustEvaluator(
                configuration: configuration, systemTrust: try environment.systemTrust(roots: roots))
            // Check servers concurrently, since each may be slow, but limit their number, since each needs a
            // descriptor.
            let outcomes = await withTaskGroup(of: (Int, Outcome).self) { group in
                var found: [(Int, Outcome)] = []
                for (index, target) in targets.enumerated() {
                    if index >= PinCheck.maximumConnections, let item = await group.next() { found.append(item) }
                    group.addTask { (index, await outcome(of: target, at: place, trust)) }
                }
                for await item in group { found.append(item) }
                return found.sorted { $0.0 < $1.0 }.map(\.1)
            }
            report(outcomes)
            if outcomes.contains(where: { $0.status == .fails || $0.status == .expiring }) { return ExitStatus.failure }
            let isReached = outcomes.allSatisfy { $0.status != .unreachable }
            return isReached ? ExitStatus.success : ExitStatus.unreachable
        } catch {
            return environment.fail(error)
        }
    }

    private func targets(
        _ hosts: [String], _ policies: PolicySet, _ policy: String
    ) throws(PinToolError) -> [PinTarget] {
        let names = hosts.isEmpty ? PinCheck.exactHosts(of: policies) : hosts
        guard !names.isEmpty else {
            throw PinToolError(
                "\(policy): the policy lists no exact host; name one: culvert pin check \(policy) HOST")
        }
        var targets: [PinTarget] = []
        for name in names { targets.append(try PinTarget(name)) }
        return targets
    }

    /// Returns the pinned hosts that a policy lists by name, in the form of arguments.
    static func exactHosts(of policies: PolicySet) -> [String] {
        policies.hosts.filter { $0.policy != nil && $0.pattern.kind != .wildcard }.map { $0.pattern.host.description }
    }

    private func outcome(of target: PinTarget, at place: String?, _ trust: TrustEvaluator) async -> Outcome {
        let chain: [[UInt8]]
        do {
            chain = try await environment.probe.chain(of: target.host, port: target.port, at: place)
        } catch {
            return Outcome(target: target, status: .unreachable, reason: error.description)
        }
        let decision = await trust.evaluate(
            chain: chain, host: target.host.description, port: target.port, at: environment.now)
        let judgement = PinJudgement(decision, policy: trust.policies.policy(for: target.host))
        var outcome = Outcome(
            target: target, status: judgement.passes ? .passes : .fails, reason: judgement.reason, decision: decision)
        guard judgement.passes else { return outcome }
        let end = judgement.end(of: decision.verifiedChain.isEmpty ? Array(chain.prefix(1)) : decision.verifiedChain)
        let left = PinDates.days(from: environment.now, to: end.date)
        outcome.days = left
        if left < days { outcome.status = .expiring }
        outcome.reason += ", \(PinDates.left(left)) (\(end.what) until \(PinDates.text(end.date)))"
        outcome.notes = judgement.notes
        return outcome
    }

    private func report(_ outcomes: [Outcome]) {
        guard !json else {
            let passes = outcomes.allSatisfy { $0.status == .passes }
            let document: JSON = [
                "passes": .bool(passes), "days": .integer(days), "hosts": .array(outcomes.map(\.json)),
            ]
            console.line(document.text)
            return
        }
        let width = outcomes.map(\.target.text.count).max() ?? 0
        for outcome in outcomes {
            let status = outcome.status.rawValue.uppercased().padded(to: 11)
            console.line("\(status)  \(outcome.target.text.padded(to: width))  \(outcome.reason)")
            for note in outcome.notes { console.line("\("".padded(to: 13 + width + 2))note: \(note)") }
        }
    }
}

extension PinCheck.Outcome {
    var json: JSON {
        [
            "host": .string(target.host.description), "port": .integer(target.port), "passes": .bool(status == .passes),
            "status": .string(status.rawValue), "decision": decision.map { .string($0.reason.rawValue) } ?? .null,
            "reason": .string(reason), "daysLeft": days.map { .integer($0) } ?? .null,
            "matchedPins": .array((decision?.matchedPins ?? []).map { JSON($0) }),
            "notes": .array(notes.map { .string($0) }),
        ]
    }
}

extension JSON {
    init(_ pin: Pin) {
        self = [
            "kind": .string(pin.kind.rawValue), "hash": .string(pin.hash.description),
            "role": .string(pin.role.rawValue),
            "scope": .string(pin.scope.rawValue),
        ]
    }
}

/// The result of a decision for a policy that is about to be shipped. Only a match of a pin passes, even if the policy
/// would accept the server without one.
struct PinJudgement {
    var passes: Bool
    var reason: String
    var notes: [String] = []
    private let policy: PinningPolicy?

    init(_ decision: TrustDecision, policy: PinningPolicy?) {
        self.policy = policy
        let pins = decision.matchedPins.map { "\($0.role.rawValue) \($0.kind.rawValue) pin \($0.hash)" }
        let matched = pins.joined(separator: ", ")
        switch decision.reason {
        case .pinMatch: (passes, reason) = (true, "matches \(matched)")
        case .leafPinMatchWithoutSystemTrust: (passes, reason) = (true, "matches \(matched), without system trust")
        case .systemTrustAllowed: (passes, reason) = (false, "no pins are for this host: system trust alone decides")
        case .pinMismatchAllowedByFallback:
            (passes, reason) = (
                false, "no pin matches; apps connect only because the policy falls back to system trust"
            )
        case .pinMismatchPermissive:
            (passes, reason) = (false, "no pin matches; apps connect only because the policy is permissive")
        case .pinMismatchAudited:
            (passes, reason) = (false, "no pin matches; apps connect only because the policy audits")
        case .pinSetExpired: (passes, reason) = (false, "the pins have expired; apps connect with system trust alone")
        case .pinSetExpiredRefused: (passes, reason) = (false, "the pins have expired, and apps refuse the host")
        case .pinningFailed: (passes, reason) = (false, "no pin matches")
        case .policyMissing:
            (passes, reason) = (false, "the host has no policy, and unlisted hosts are refused")
        case .trustFailed, .invalidHost, .invalidChain:
            // The verdict contains the failure from the events.
            (passes, reason) = (false, ServerVerdict(decision).reason)
        }
        if let hint = decision.mismatchHint { reason += "; \(hint)" }
        if decision.events.contains(where: { $0.name == TrustEvent.onlyBackupMatched.name }) {
            notes.append("only a backup matches: the server has changed keys. Ship a policy with a new backup")
        }
    }

    /// Returns the time at which the server stops passing, and the certificate or pins that expire then.
    func end(of chain: [[UInt8]]) -> (date: Date, what: String) {
        var end = (date: Date.distantFuture, what: "pins")
        if let expiry = policy?.expiry { end = (expiry.date, "pins") }
        for (index, der) in chain.enumerated() {
            guard let fields = try? CertificateFields(der) else { continue }
            let date = Date(timeIntervalSince1970: Double(fields.notAfter))
            let name = index == 0 ? "certificate" : "issuer's certificate"
            if date < end.date { end = (date, name) }
        }
        return end
    }
}
