// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux
import Provisioning
import Synchronization
import TunnelServer
import TunnelSystem
import WireGuardCore
import WireGuardDevice

extension GatewayService {
    package func rules(of owner: Rule.Owner, _ caller: Caller) async throws(GatewayError) -> [Rule] {
        try caller.check(.read)
        return try await stored(owner.kind, try await store.rules(of: owner))
    }

    /// Adds a rule to the rules of the owner. Concurrent changes of other rules are kept.
    /// - Returns: All rules of the owner, in their order.
    package func addRule(
        to owner: Rule.Owner, _ addition: RuleAddition, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Created<[Rule]> {
        try caller.check(.manage)
        try InputValidation.rules([addition.rule])
        if case .device(let id) = owner { try await checkLasts(id) }
        var random = random
        let rule = Rule(id: RuleID(using: &random), owner: owner, addition.rule)
        let text = JSON.object(Rule.message.members(rule).filter { $0.name != "id" }).line
        let creation = try creation(creationKey, "rule \(owner.text) \(addition.isFirst) \(text)", caller)
        let audit = record(.rulesChanged, owner.text, caller, ["added": rule.id.description])
        return try await changed(
            owner.kind, try await store.add(rule, isFirst: addition.isFirst, limit: Rule.most, creation, audit))
    }

    /// Removes one rule of the owner. Concurrent changes of other rules are all kept.
    /// - Returns: The remaining rules, in their order.
    package func removeRule(
        _ id: RuleID, of owner: Rule.Owner, _ caller: Caller
    ) async throws(GatewayError) -> [Rule] {
        try caller.check(.manage)
        let audit = record(.rulesChanged, owner.text, caller, ["removed": id.description])
        return try await changed("rule", try await store.remove(rule: id, of: owner, audit))
    }

    /// Replaces the rules of the owner with these, in this order.
    /// - Parameter versions: The versions of the list that may be replaced (``Rule/version(of:)``), or `nil` for any.
    /// - Throws: `.changed` if the list has another version.
    package func setRules(
        of owner: Rule.Owner, _ rules: [RuleDraft], ifVersion versions: [String]? = nil, _ caller: Caller
    ) async throws(GatewayError) -> [Rule] {
        try caller.check(.manage)
        try InputValidation.rules(rules)
        if case .device(let id) = owner, !rules.isEmpty { try await checkLasts(id) }
        var random = random
        let made = rules.map { Rule(id: RuleID(using: &random), owner: owner, $0) }
        let audit = record(.rulesChanged, owner.text, caller, ["rules": "\(made.count)"])
        try await changed(owner.kind, try await store.setRules(of: owner, made, ifVersion: versions, audit))
        return made
    }

    // MARK: - Status and audit log

    package func status(_ caller: Caller) async throws(GatewayError) -> GatewayStatus {
        try caller.check(.read)
        let now = now
        let restSince = restSince(at: now)
        let counts = try await stored("status", try await store.counts(at: now))
        let pools = try await stored("status", try await store.pools(settings.addresses, restSince: restSince))
        let keys = state.withLock { $0.keys }
        return GatewayStatus(
            counts: counts, pools: pools, servesWireGuard: settings.servesWireGuard,
            serverKey: keys.current.publicKey, nextServerKey: keys.next?.key.publicKey,
            nextServerKeyAt: keys.next?.switchAt, aead: TransportAEAD.name, now: now, warnings: warnings)
    }

    private var warnings: [String] {
        let network = network.withLock { $0 }
        let problems = (network?.condition.problems ?? []) + unsaved + listenerProblems
        return Array(((network?.warnings ?? []) + problems.map(\.what)).prefix(GatewayStatus.mostWarnings))
    }

    /// Returns a page of the audit log, the latest entries first.
    package func audit(
        _ filter: AuditFilter = AuditFilter(), _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<AuditEntry> {
        try caller.check(.read)
        return try await stored("entry", try await store.audit(filter, page))
    }

    /// The audit entry of a backup that is made now, if the caller may make one.
    package func backupRecord(_ caller: Caller) throws(GatewayError) -> AuditRecord {
        try caller.check(.manageLocally)
        return record(.backupMade, "gateway", caller)
    }

    /// Adds an audit entry for a delivered backup.
    package func auditBackup(_ caller: Caller) async throws(GatewayError) {
        let audit = try backupRecord(caller)
        try await stored("gateway", try await store.append(audit, change: nil))
    }
}

extension Rule.Owner {
    var kind: String {
        switch self {
        case .user: "user"
        case .device: "device"
        }
    }

    var text: String {
        switch self {
        case .user(let id), .device(let id): "\(kind):\(id)"
        }
    }
}
