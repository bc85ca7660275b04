// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Settings files that people write: a missing member has its default, and an unknown one is refused.

private struct AnyKey: CodingKey {
    let stringValue: String
    let intValue: Int? = nil
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension Decoder {
    /// Returns the container of an object of settings.
    /// - Throws: if the object has a member that is not a case of `Key`.
    package func settings<Key: CodingKey & CaseIterable & RawRepresentable<String>>(
        _ type: Key.Type
    ) throws -> KeyedDecodingContainer<Key> {
        let known = Set(Key.allCases.map(\.rawValue))
        if let key = try container(keyedBy: AnyKey.self).allKeys.first(where: { !known.contains($0.stringValue) }) {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: codingPath + [key],
                    debugDescription: "unknown setting; the settings are \(known.sorted().joined(separator: ", "))"
                ))
        }
        return try container(keyedBy: type)
    }
}

extension KeyedDecodingContainer {
    /// Replaces `value` by the member `key`, if it exists.
    package func read<Value: Decodable>(_ key: Key, into value: inout Value) throws {
        value = try decodeIfPresent(Value.self, forKey: key) ?? value
    }
}

extension DecodingError {
    /// Returns the place in the document, such as `peers[1].port`, and the reason. The place is empty for the whole document.
    /// - Parameter quotesValues: Whether the reason may contain a value of the document.
    package func problem(quotesValues: Bool = true) -> (place: String, reason: String) {
        switch self {
        case .typeMismatch(let type, let context): (Self.place(context), "no \(type)")
        case .valueNotFound(let type, let context): (Self.place(context), "null instead of \(type)")
        case .keyNotFound(let key, let context): (Self.place(context), "no '\(key.stringValue)'")
        case .dataCorrupted(let context):
            (Self.place(context), quotesValues ? context.debugDescription : "not valid")
        @unknown default: ("", "not valid")
        }
    }

    /// Describes the error of a decoder in one line, without the values of the document.
    package static func summary(of error: any Error) -> String {
        guard let (place, reason) = (error as? DecodingError)?.problem(quotesValues: false) else {
            return "not valid for its type"
        }
        return "\(reason) at \(place.isEmpty ? "the top level" : "'\(place)'")"
    }

    private static func place(_ context: Context) -> String {
        context.codingPath.reduce("") { place, key in
            if let index = key.intValue { return "\(place)[\(index)]" }
            return place.isEmpty ? key.stringValue : "\(place).\(key.stringValue)"
        }
    }
}
