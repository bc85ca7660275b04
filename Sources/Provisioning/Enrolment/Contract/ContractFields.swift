// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel
import TunnelSystem

/// The members of an object, read one by one: for requests of the administrators' API that have no declaration.
package struct ContractFields {
    private let json: JSON
    private let path: String

    /// - Parameter known: The names that the object can have.
    package init(_ json: JSONValue, path: String = "", known: Set<String>) throws(ContractError) {
        guard case .object(let members) = json else {
            throw ContractError(field: path.isEmpty ? "body" : path, problem: "must be an object")
        }
        self.json = json.ordered
        self.path = path
        if let other = members.keys.filter({ !known.contains($0) }).min() {
            throw ContractError(field: field(ContractError.visible(other)), problem: "there is no such member")
        }
    }

    package func field(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    package func value<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value {
        guard let json = json[name] else { throw ContractError(field: field(name), problem: "must be present") }
        return try read(ContractValue(json: json, field: field(name)))
    }

    /// `nil` also for `null`.
    package func optional<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value? {
        guard let json = json[name], json != .null else { return nil }
        return try read(ContractValue(json: json, field: field(name)))
    }

    /// `nil` for an absent member, `.some(nil)` for `null`.
    package func change<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value?? {
        guard let json = json[name] else { return nil }
        guard json != .null else { return .some(nil) }
        return .some(try read(ContractValue(json: json, field: field(name))))
    }
}

extension ContractValue {
    package func list<Value>(
        _ count: ClosedRange<Int>, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> [Value] {
        guard case .array(let items) = json else { throw error("must be a list") }
        guard count.contains(items.count) else {
            throw error("there are \(items.count) entries; \(count.lowerBound) to \(count.upperBound) are possible")
        }
        var values: [Value] = []
        for (index, item) in items.enumerated() {
            values.append(try read(ContractValue(json: item, field: "\(field)[\(index)]")))
        }
        return values
    }

    package func integer(_ range: ClosedRange<Int64>) throws(ContractError) -> Int64 {
        try ValueFormat<Int64>.integer(range).decode(json, field)
    }

    package func flag() throws(ContractError) -> Bool { try ValueFormat<Bool>.flag.decode(json, field) }

    package func label(_ length: ClosedRange<Int>) throws(ContractError) -> String {
        try ValueFormat<String>.line(length).decode(json, field)
    }

    package func id() throws(ContractError) -> RandomID { try ValueFormat<RandomID>.id.decode(json, field) }
}
