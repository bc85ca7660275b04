// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Reads the JSON of policies and envelopes. In addition to the rules of ``TunnelSystem/JSON``, numbers must be whole: readers differ
/// in how they round fractions, and an envelope is signed.
package enum JSONReader {
    /// The greatest number of lists and dictionaries around a value.
    static let maximumDepth = 16
    /// The greatest length of a text, in bytes.
    package static let maximumSize = 1 << 20

    /// Reads one value, which is the whole text.
    package static func read(_ bytes: [UInt8]) throws(PolicyError) -> PolicyValue {
        func error(_ reason: String) -> PolicyError { PolicyError([PolicyProblem("", reason)]) }
        guard bytes.count <= maximumSize else { throw error("the text has more than 1 MiB") }
        guard !bytes.isEmpty else { throw error("there is no text: JSON was expected") }
        do throws(JSONError) {
            return PolicyValue(try JSON.read(bytes, depth: maximumDepth, isWhole: true))
        } catch {
            throw PolicyError([PolicyProblem("", "not JSON: \(error.problem), at byte \(error.position)")])
        }
    }
}

extension PolicyValue {
    fileprivate init(_ json: JSON) {
        switch json {
        case .null: self = .null
        case .bool(let value): self = .boolean(value)
        case .integer(let value): self = .integer(value)
        // The reader refuses numbers that are not whole.
        case .number: self = .other
        case .string(let text): self = .text(text)
        case .array(let values): self = .array(values.map { PolicyValue($0) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.name, PolicyValue($0.value)) }) { first, _ in first })
        }
    }
}
