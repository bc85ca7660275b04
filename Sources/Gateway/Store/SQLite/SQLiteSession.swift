// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB

/// The statements of an SQLite transaction.
struct SQLiteSession: SQLSession {
    let connection: Database

    func rows(_ sql: SQL) throws -> [SQLRow] {
        let (statement, arguments) = try prepared(sql)
        let columns = statement.columnNames
        let cursor = try Row.fetchCursor(statement, arguments: arguments)
        var rows: [SQLRow] = []
        while let row = try cursor.next() {
            rows.append(SQLRow(columns: columns, values: columns.indices.map { SQLValue(row[$0]) }))
        }
        return rows
    }

    @discardableResult func execute(_ sql: SQL) throws -> Int {
        let (statement, arguments) = try prepared(sql)
        try statement.execute(arguments: arguments)
        return connection.changesCount
    }

    /// The prepared statement and its values. Each connection prepares a statement once, unless its text depends on
    /// the length of a list.
    private func prepared(_ sql: SQL) throws -> (Statement, StatementArguments) {
        let (text, values) = sql.text { _ in "?" }
        let statement = try sql.hasList ? connection.makeStatement(sql: text) : connection.cachedStatement(sql: text)
        return (statement, StatementArguments(values.map(\.databaseValue)))
    }
}

extension SQLValue {
    fileprivate init(_ value: DatabaseValue) {
        self =
            switch value.storage {
            case .null: .null
            case .int64(let number): .integer(number)
            case .string(let text): .text(text)
            case .blob(let bytes): .bytes(bytes)
            // No column contains floating-point numbers.
            case .double(let number): .text("\(number)")
            }
    }

    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let number): number.databaseValue
        case .text(let text): text.databaseValue
        case .bytes(let bytes): bytes.databaseValue
        }
    }
}
