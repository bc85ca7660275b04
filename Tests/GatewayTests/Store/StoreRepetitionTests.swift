// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Testing

@testable import Gateway

@Suite("Repeated entries of the audit log") struct StoreRepetitionTests {
    private func entries(_ fixture: StoreFixture, _ action: AuditRecord.Action) async throws -> [AuditEntry] {
        try await fixture.store.audit(AuditFilter(action: action), PageRequest(limit: 500)).items
    }

    private func event(
        _ fixture: StoreFixture, _ action: AuditRecord.Action = .deviceKeyRotated, subject: String = "device:a",
        actor: String = "device:a", source: IPAddress? = .v4(192, 0, 2, 7), from: Int = 0, after seconds: Double
    ) -> AuditRecord {
        AuditRecord(
            at: fixture.start.addingTimeInterval(seconds), actor: actor, source: source, action: action,
            subject: subject,
            details: ["from": "\(from)", "to": "\(from + 1)"])
    }

    @Test(
        "Equal events within a minute are one entry with their number, from the first value to the latest",
        arguments: StoreKind.allCases)
    func counted(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            for number in 0..<120 {
                try await fixture.store.append(
                    event(fixture, from: number, after: Double(number) / 2), change: nil)
            }
            #expect(try await entries(fixture, .deviceKeyRotated).map(\.count) == [120])
            try await fixture.store.append(event(fixture, from: 120, after: 60), change: nil)
            let all = try await entries(fixture, .deviceKeyRotated)
            #expect(all.map(\.count) == [1, 120])
            #expect(all.map(\.record.details) == [["from": "120", "to": "121"], ["from": "0", "to": "120"]])
            #expect(all.last?.record.at == fixture.start)
        }
    }

    @Test(
        "Events of another action, subject, actor or source, and of administrators, are separate entries",
        arguments: StoreKind.allCases)
    func separate(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            for _ in 0..<2 {
                for record in [
                    event(fixture, after: 1), event(fixture, .deviceRenewed, after: 1),
                    event(fixture, subject: "device:b", after: 1), event(fixture, actor: "addKey:a", after: 1),
                    event(fixture, source: nil, after: 1), event(fixture, .rulesChanged, after: 1),
                ] {
                    try await fixture.store.append(record, change: nil)
                }
            }
            #expect(try await entries(fixture, .deviceKeyRotated).map(\.count) == [2, 2, 2, 2])
            #expect(try await entries(fixture, .deviceRenewed).map(\.count) == [2])
            #expect(try await entries(fixture, .rulesChanged).map(\.count) == [1, 1])
            // The clock was set back.
            try await fixture.store.append(event(fixture, after: 0), change: nil)
            #expect(try await entries(fixture, .deviceKeyRotated).count == 5)
        }
    }
}
