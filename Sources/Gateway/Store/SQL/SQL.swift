// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// A statement. Interpolated values are passed separately from its text, so that no value is executed as SQL.
///
/// An interpolated array becomes the list of an `IN`. Interpolated ``SQL`` becomes a part of the statement.
struct SQL: ExpressibleByStringInterpolation, Sendable {
    private enum Part: Sendable {
        case text(String)
        case value(SQLValue)
        case list([SQLValue])
    }

    private var parts: [Part] = []
    /// Whether the text depends on the length of a list.
    private(set) var hasList = false

    private init() {}
    init(stringLiteral text: String) { parts = [.text(text)] }
    init(stringInterpolation: StringInterpolation) { self = stringInterpolation.sql }

    /// The text, and the values in the order of their placeholders.
    /// - Parameter placeholder: Returns the placeholder of a value for its number, which starts at 1.
    func text(_ placeholder: (Int) -> String) -> (text: String, values: [SQLValue]) {
        var (text, values): (String, [SQLValue]) = ("", [])
        func next(_ value: SQLValue) -> String {
            values.append(value)
            return placeholder(values.count)
        }
        for part in parts {
            switch part {
            case .text(let part): text += part
            case .value(let value): text += next(value)
            // Not all databases accept an empty list.
            case .list([]): text += "(SELECT NULL WHERE FALSE)"
            case .list(let list): text += "(\(list.map(next).joined(separator: ", ")))"
            }
        }
        return (text, values)
    }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var sql = SQL()

        init(literalCapacity: Int, interpolationCount: Int) {
            sql.parts.reserveCapacity(2 * interpolationCount + 1)
        }

        mutating func appendLiteral(_ text: String) {
            if !text.isEmpty { sql.parts.append(.text(text)) }
        }
        mutating func appendInterpolation(_ value: (some SQLConvertible)?) {
            sql.parts.append(.value(value.sqlValue))
        }
        mutating func appendInterpolation(_ values: [some SQLConvertible]) {
            sql.parts.append(.list(values.map(\.sqlValue)))
            sql.hasList = true
        }
        mutating func appendInterpolation(_ part: SQL) {
            sql.parts += part.parts
            sql.hasList = sql.hasList || part.hasList
        }
        /// - Parameter text: The name of a table or a column, from this program's source.
        mutating func appendInterpolation(sql text: String) { appendLiteral(text) }
    }
}

/// A value in a column, or a parameter of a statement.
enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes(Data)
}

/// A type whose values are written to a database and read from it.
protocol SQLConvertible {
    /// Returns `nil` if the type has no such value.
    init?(sql value: SQLValue)
    var sqlValue: SQLValue { get }
}

/// A row that a statement has returned. Reading never traps: a damaged value is an error.
struct SQLRow: Sendable {
    /// The names of the columns, which all rows of a statement share.
    let columns: [String]
    let values: [SQLValue]

    /// - Parameter values: One value for each column.
    init(columns: [String], values: [SQLValue]) {
        self.columns = columns
        self.values = values
    }

    /// - Throws: ``StoreError/unavailable(_:)`` if the column is missing or its value is not valid for the type.
    subscript<Value: SQLConvertible>(_ column: String) -> Value {
        get throws(StoreError) {
            guard let index = columns.firstIndex(of: column), values.indices.contains(index),
                let value = Value(sql: values[index])
            else { throw damaged(column) }
            return value
        }
    }

    func damaged(_ column: String) -> StoreError {
        .unavailable("the database is damaged: '\(column)' has an invalid value")
    }
}
