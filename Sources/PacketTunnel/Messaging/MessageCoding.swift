// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Messages as JSON.
enum MessageCoding {
    /// The JSON of `value`.
    static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(value))
    }

    /// The value in `bytes`.
    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }

    /// What an error of ``decode(_:from:)`` says, in one line and without the values that it met.
    static func describe(_ error: any Error) -> String {
        func path(_ context: DecodingError.Context) -> String {
            let keys = context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }
            return keys.isEmpty ? "the top level" : "'\(keys.joined(separator: "."))'"
        }
        guard let error = error as? DecodingError else { return "not as its type says" }
        switch error {
        case .typeMismatch(let type, let context): return "no \(type) at \(path(context))"
        case .valueNotFound(let type, let context): return "null instead of \(type) at \(path(context))"
        case .keyNotFound(let key, let context): return "no '\(key.stringValue)' at \(path(context))"
        case .dataCorrupted(let context): return "not valid at \(path(context))"
        @unknown default: return "not as its type says"
        }
    }
}
