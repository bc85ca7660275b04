// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing

@testable import Gateway

@Suite struct SQLTests {
    @Test("Values are not part of the text, and each database has its own placeholders")
    func values() {
        let name = "'; DROP TABLE users; --"
        let (part, none): (SQL, String?) = ("enabled = \(true)", nil)
        let sql: SQL = "SELECT \(sql: "id") FROM users WHERE name = \(name) AND \(part) AND notes = \(none) LIMIT \(7)"
        let (text, values) = sql.text { "$\($0)" }
        #expect(text == "SELECT id FROM users WHERE name = $1 AND enabled = $2 AND notes = $3 LIMIT $4")
        #expect(values == [.text(name), .integer(1), .null, .integer(7)])
        #expect(!sql.hasList)
    }

    @Test("An array becomes a list, and an empty list matches nothing")
    func lists() async throws {
        let (some, none) = ([1, 2], [Int]())
        let part: SQL = "1 IN \(some)"
        let sql: SQL = "SELECT \(part) AS listed, 1 IN \(none) AS missing, 1 NOT IN \(none) AS other"
        #expect(sql.hasList)
        #expect(sql.text { _ in "?" }.values == [.integer(1), .integer(2)])
        let row = try await GatewayStore.inMemory().database.read { try $0.figures(sql) }
        let (listed, missing, other): (Bool, Bool, Bool) = try (row["listed"], row["missing"], row["other"])
        #expect(listed && !missing && other)
    }

    @Test("Each value is read as written, and a value of another kind is refused")
    func conversions() async throws {
        let store = try GatewayStore.inMemory()
        let fixture = StoreFixture(store)
        func check<Value: SQLConvertible & Equatable & Sendable>(
            _ value: Value, sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let row = try await store.database.read { try $0.figures("SELECT \(value) AS x") }
            let read: Value = try row["x"]
            #expect(read == value, sourceLocation: sourceLocation)
            #expect(throws: StoreError.self, sourceLocation: sourceLocation) { try row["y"] as Value }
        }
        try await check("text")
        try await check(Int64.min)
        try await check(UInt64(7))
        try await check(true)
        try await check(Data([0, 255]))
        try await check(fixture.start)
        try await check(fixture.id())
        try await check(fixture.key())
        try await check(fixture.hash())
        try await check(try IPAddress("fd66::1"))
        try await check(try IPPrefix("10.66.0.0/24"))
        try await check(Device.Kind.addKey)
        try await check(Device.Kind?.none)
        let row = SQLRow(columns: ["text", "number", "none"], values: [.text("x"), .integer(-1), .null])
        #expect(throws: StoreError.self) { try row["text"] as Int }
        #expect(throws: StoreError.self) { try row["text"] as RandomID }
        #expect(throws: StoreError.self) { try row["text"] as Device.Kind }
        #expect(throws: StoreError.self) { try row["number"] as String? }
        #expect(throws: StoreError.self) { try row["none"] as Int }
        let number: UInt64 = try row["number"]
        #expect(number == 0)
    }

    /// Without the tolerance, each of these times would lose a millisecond with every write.
    @Test(
        "Reading and writing a time does not change it",
        arguments: [351_676, 1_767_225_600_123, 2_199_014_351_581, -1] as [Int64])
    func times(_ milliseconds: Int64) {
        #expect(Date(milliseconds: milliseconds).milliseconds == milliseconds)
    }
}
