// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

extension PolicySet {
    /// Reads policies from JSON; docs/trust-pinning.md describes the format.
    ///
    /// - Throws: ``PolicyError`` with all problems of the text and its content.
    public init(json: [UInt8]) throws(PolicyError) { try self.init(try JSON.read(policy: json)) }

    /// Reads policies from JSON text.
    ///
    /// - Throws: ``PolicyError`` with all problems of the text and its content.
    public init(json: String) throws(PolicyError) { try self.init(json: Array(json.utf8)) }

    package init(_ value: JSON) throws(PolicyError) {
        var problems: [PolicyProblem] = []
        guard let set = Self.read(value, at: "", hasVersion: true, &problems) else { throw PolicyError(problems) }
        self = set
    }

    /// Reads a set. Returns `nil` if it added problems.
    static func read(
        _ value: JSON, at path: String, hasVersion: Bool, _ problems: inout [PolicyProblem]
    ) -> PolicySet? {
        guard var fields = PolicyFields(value, at: path, &problems) else { return nil }
        if hasVersion { fields.version() }
        var hosts: [HostPolicy] = []
        for (index, element) in (fields.array("hosts") ?? []).enumerated() {
            var found: [PolicyProblem] = []
            if let host = HostPolicy.read(element, &found) { hosts.append(host) }
            for problem in found { fields.addProblem(problem.below("hosts[\(index)]")) }
        }
        let unlisted = readUnlisted(&fields)
        fields.end()
        var found = fields.problems
        if found.isEmpty, let unlisted {
            do { return try PolicySet(hosts, unlisted: unlisted) } catch { found = error.problems }
        }
        problems += found.map { $0.below(path) }
        return nil
    }

    private static func readUnlisted(_ fields: inout PolicyFields) -> UnlistedHosts? {
        switch fields.removeField("unlistedHosts") {
        case .string("refuse"): return .refuse
        case .string("systemTrust"): return .systemTrust
        case .object(let members):
            var found: [PolicyProblem] = []
            if var inner = PolicyFields(.object(members), at: "", &found) {
                let policy = PinningPolicy.read(&inner)
                inner.end()
                found += inner.problems
                if found.isEmpty, let policy { return .pinned(policy) }
            }
            for problem in found { fields.addProblem(problem.below("unlistedHosts")) }
        case nil:
            fields.addProblem("unlistedHosts", "is missing: must be refuse, systemTrust or a policy; it has no default")
        default: fields.addProblem("unlistedHosts", "refuse, systemTrust, or a policy was expected")
        }
        return nil
    }
}

extension HostPolicy {
    fileprivate static func read(_ value: JSON, _ problems: inout [PolicyProblem]) -> HostPolicy? {
        guard var fields = PolicyFields(value, at: "", &problems) else { return nil }
        var pattern: HostPattern?
        let includesSubdomains = fields.boolean("includeSubdomains", default: false)
        if let text = fields.text("host") {
            do {
                if includesSubdomains, text.hasPrefix("*.") {
                    fields.addProblem("host", "must not combine *. (one level) with includeSubdomains (all levels)")
                } else {
                    pattern = includesSubdomains ? try .includingSubdomains(text) : try HostPattern(text)
                }
            } catch { fields.addProblem("host", error.description) }
        } else if !fields.problems.contains(where: { $0.path == "host" }) {
            fields.addProblem("host", "is missing")
        }
        if fields.boolean("exclude", default: false) {
            fields.end()
            problems += fields.problems
            return fields.problems.isEmpty ? pattern.map { .excluding($0) } : nil
        }
        let policy = PinningPolicy.read(&fields)
        fields.end()
        problems += fields.problems
        guard fields.problems.isEmpty, let pattern, let policy else { return nil }
        return HostPolicy(pattern, policy)
    }
}

extension PinningPolicy {
    /// Reads the fields of a policy. Returns `nil` if there are problems, which were added to the fields.
    fileprivate static func read(_ fields: inout PolicyFields) -> PinningPolicy? {
        let before = fields.problems.count
        let mode = fields.choice("mode", default: Mode.strict)
        let requiresSystemTrust = fields.boolean("requiresSystemTrust", default: true)
        let allowsFallback = fields.boolean("allowsSystemTrustFallback", default: false)
        let hasExpiry = fields.has("expires")
        let expires = fields.date("expires")
        let hasAfterwards = fields.has("afterExpiry")
        let afterwards = fields.choice("afterExpiry", default: Expiry.Afterwards.systemTrust)
        if hasAfterwards, !hasExpiry { fields.addProblem("afterExpiry", "requires the member expires") }
        var pins: [Pin] = []
        for (index, element) in (fields.array("pins") ?? []).enumerated() {
            var found: [PolicyProblem] = []
            if let pin = Pin.read(element, &found) { pins.append(pin) }
            for problem in found { fields.addProblem(problem.below("pins[\(index)]")) }
        }
        // Stop here: with unreadable pins missing, a problem about the number of pins would be misleading.
        guard fields.problems.count == before else { return nil }
        do {
            return try PinningPolicy(
                pins: pins, mode: mode, requiresSystemTrust: requiresSystemTrust,
                allowsSystemTrustFallback: allowsFallback, expiry: expires.map { Expiry($0, afterwards: afterwards) })
        } catch {
            for problem in error.problems { fields.addProblem(problem) }
            return nil
        }
    }
}

extension Pin {
    fileprivate static func read(_ value: JSON, _ problems: inout [PolicyProblem]) -> Pin? {
        guard var fields = PolicyFields(value, at: "", &problems) else { return nil }
        let kind = fields.choice("kind", default: Kind.spki)
        let role = fields.choice("role", default: Role.primary)
        let scope = fields.choice("scope", default: Scope.any)
        var hash: PinHash?
        if let text = fields.text("hash") {
            do { hash = try PinHash(text) } catch { fields.addProblem("hash", error.reason) }
        } else if !fields.problems.contains(where: { $0.path == "hash" }) {
            fields.addProblem("hash", "is missing")
        }
        var pin: Pin?
        if let hash, fields.problems.isEmpty {
            do { pin = try Pin(kind, hash, role: role, scope: scope) } catch {
                fields.addProblem("scope", error.reason)
            }
        }
        fields.end()
        problems += fields.problems
        return fields.problems.isEmpty ? pin : nil
    }
}

extension TrustConfiguration {
    /// Reads environments from JSON: `selected`, and `environments` with a set of policies for each.
    ///
    /// - Throws: ``PolicyError`` with all problems.
    public init(json: [UInt8]) throws(PolicyError) { try self.init(try JSON.read(policy: json)) }

    /// Reads environments from a property list, such as an app's Info.plist, in XML or binary form.
    ///
    /// - Parameters:
    ///   - propertyList: The content of the file.
    ///   - key: The name of the dictionary with the content of the JSON, or `nil` if it is the whole file.
    /// - Throws: ``PolicyError`` with all problems.
    public init(propertyList: [UInt8], key: String? = "CulvertTrust") throws(PolicyError) {
        guard let members = try? PropertyListDecoder().decode(PolicyMembers.self, from: Data(propertyList)) else {
            throw PolicyError([PolicyProblem("", "not a property list with a dictionary")])
        }
        func check(_ name: String) throws(PolicyError) {
            guard !members.unreadable.contains(name) else {
                throw PolicyError([PolicyProblem(name, "is nested too deeply")])
            }
        }
        guard let key else {
            for name in members.unreadable.sorted() { try check(name) }
            try self.init(.object(members.values))
            return
        }
        try check(key)
        guard let value = members.values[key] else { throw PolicyError([PolicyProblem(key, "is missing")]) }
        do { try self.init(value) } catch { throw PolicyError(error.problems.map { $0.below(key) }) }
    }

    /// Reads environments. A set of policies without `environments` is for the environment `production`.
    init(_ value: JSON) throws(PolicyError) {
        var problems: [PolicyProblem] = []
        guard var fields = PolicyFields(value, at: "", &problems) else { throw PolicyError(problems) }
        guard fields.has("environments") else {
            self.init(try PolicySet(value))
            return
        }
        fields.version()
        let selected = TrustEnvironment(rawValue: fields.text("selected") ?? TrustEnvironment.production.rawValue)
        var environments: [TrustEnvironment: PolicySet] = [:]
        if case .object(let members)? = fields.removeField("environments") {
            for member in members.sorted(by: { $0.name < $1.name }) {
                let path = "environments.\(member.name)"
                guard let set = PolicySet.read(member.value, at: path, hasVersion: false, &problems) else { continue }
                environments[TrustEnvironment(rawValue: member.name)] = set
            }
        } else {
            fields.addProblem("environments", "a dictionary was expected")
        }
        fields.end()
        problems += fields.problems
        if problems.isEmpty {
            do {
                try self.init(environments, selected: selected)
                return
            } catch { problems = error.problems }
        }
        throw PolicyError(problems)
    }
}
