// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Provisioning
import Testing

@testable import Gateway

@Suite struct ExpiryLimitTests {
    @Test("A renewal cannot exceed the administrator's expiry", arguments: StoreKind.allCases)
    func renewal(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let device = try await fixture.device(of: try await fixture.user(), expiresAfter: 100)
            let (late, early) = (fixture.start.addingTimeInterval(300), fixture.start.addingTimeInterval(200))
            #expect(
                try await store.change(device: device.id, .renewal(until: early), fixture.audit()).device.expiresAt
                    == early)
            var update = DeviceUpdate()
            update.expiresAt = .some(early)
            let limited = try await store.change(
                device: device.id, .update(update, try fixture.limits()), fixture.audit())
            #expect(limited.device.expiryLimit == early)
            #expect(
                try await store.change(device: device.id, .renewal(until: late), fixture.audit()).device.expiresAt
                    == early)
            update.expiresAt = .some(nil)
            let free = try await store.change(device: device.id, .update(update, try fixture.limits()), fixture.audit())
            #expect(free.device.expiryLimit == nil && free.device.expiresAt == nil)
        }
    }

    @Test("The migration finds the expiries that administrators have set, in the audit log and for stock clients")
    func migration() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            try Data().write(to: URL(filePath: path))
            try TestFolder.setMode(path, 0o600)
            let old = try DatabaseQueue(path: path)
            try Schema.migrator.migrate(old, upTo: "2")
            let random = RandomSource()
            func id() -> RandomID {
                var random = random
                return RandomID(using: &random)
            }
            let (user, set, renewed, never, stock) = (id(), id(), id(), id(), id())
            try await old.write { db in
                try db.execute(
                    literal: """
                        INSERT INTO users (id, login, name, notes, enabled, created_at)
                        VALUES (\(user.description), 'anna', '', '', 1, 0)
                        """)
                for (device, kind, end) in [
                    (set, "enrolled", 1_767_225_600_123), (renewed, "enrolled", 1_767_225_600_123),
                    (never, "enrolled", 1_767_225_600_123), (stock, "exported", 1_767_225_600_123),
                ] as [(RandomID, String, Int64)] {
                    try db.execute(
                        literal: """
                            INSERT INTO devices (id, user_id, kind, name, notes, enabled, expires_at, created_at)
                            VALUES (\(device.description), \(user.description), \(kind), 'x', '', 1, \(end), 0)
                            """)
                }
                for (device, details) in [
                    (set, #"{"expiresAt":"2025-01-01T00:00:00Z"}"#), (set, #"{"expiresAt":"2026-01-01T00:00:00Z"}"#),
                    (set, #"{"enabled":"true"}"#), (renewed, #"{"expiresAt":"2025-06-01T00:00:00Z"}"#),
                    (never, #"{"expiresAt":"2026-01-01T00:00:00Z"}"#), (never, #"{"expiresAt":"never"}"#),
                    (never, "no JSON"),
                ] {
                    try db.execute(
                        literal: """
                            INSERT INTO audit (at, actor, action, subject, details)
                            VALUES (0, 'local:0', 'deviceChanged', \("device:\(device)"), \(details))
                            """)
                }
            }
            try old.close()
            let store = try GatewayStore(path: path)
            let end = Date(milliseconds: 1_767_225_600_123)
            #expect(try await store.device(set)?.device.expiryLimit == end)
            #expect(try await store.device(stock)?.device.expiryLimit == end)
            for device in [renewed, never] {
                let found = try #require(try await store.device(device)?.device)
                #expect(found.expiryLimit == nil && found.expiresAt == end)
            }
            try await store.check()
            try store.close()
        }
    }
}
