// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Files of settings that people write: what is left out is as it is by default, and what is not known is refused.

private struct AnyKey: CodingKey {
    let stringValue: String
    let intValue: Int? = nil
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension Decoder {
    /// An object of settings, in which nothing has a name that is not known.
    package func settings<Key: CodingKey & CaseIterable & RawRepresentable<String>>(
        _ type: Key.Type
    ) throws -> KeyedDecodingContainer<Key> {
        let known = Set(Key.allCases.map(\.rawValue))
        if let key = try container(keyedBy: AnyKey.self).allKeys.first(where: { !known.contains($0.stringValue) }) {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: codingPath + [key],
                    debugDescription: "there is no such setting; settings are \(known.sorted().joined(separator: ", "))"
                ))
        }
        return try container(keyedBy: type)
    }
}

extension KeyedDecodingContainer {
    /// Replaces `value` by what is under `key`, if there is something.
    package func take<Value: Decodable>(_ key: Key, _ value: inout Value) throws {
        value = try decodeIfPresent(Value.self, forKey: key) ?? value
    }
}

extension DecodingError {
    /// Where in the document it went wrong, such as `api.port`, and why. The place is empty for the document as a whole.
    package var problem: (place: String, words: String) {
        func place(_ path: [any CodingKey]) -> String {
            path.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        }
        return switch self {
        case .dataCorrupted(let context), .typeMismatch(_, let context), .valueNotFound(_, let context):
            (
                place(context.codingPath),
                context.codingPath.isEmpty ? "this is no JSON object" : context.debugDescription
            )
        case .keyNotFound(let key, let context): (place(context.codingPath + [key]), "it is missing")
        @unknown default: ("", "it cannot be read")
        }
    }
}
