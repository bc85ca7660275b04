// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Reads the JSON of the enrolment API. An object with two members of one name is refused: readers differ in which one they take, and
/// `JSONDecoder` drops one without an error. Fractions and deep nesting, which the strict reader of pinning policies refuses, may be in
/// the members of later versions.
enum ContractJSON {
    /// Reads a text in UTF-8.
    /// - Throws: ``ContractError`` for the whole, or for the member that occurs twice.
    static func read(_ text: [UInt8]) throws(ContractError) -> JSONValue {
        // The decoder takes UTF-16 and UTF-32 too, in which each `{` has a zero byte. A text in UTF-8 has none (RFC 8259 section 7).
        guard !text.contains(0), let json = try? JSONDecoder().decode(JSONValue.self, from: Data(text)) else {
            throw ContractError(field: "body", problem: "must be JSON in UTF-8")
        }
        if let name = repeatedName(in: text) {
            // The name is external text.
            let visible = String(name.unicodeScalars.filter { !$0.isControl }.prefix(40).map(Character.init))
            throw ContractError(field: visible, problem: "there are two members with this name")
        }
        return json
    }

    private enum Container {
        case array
        /// An object with these names.
        case object(Set<String>)
    }

    /// The first name that an object has twice, as the decoder compares names.
    /// - Parameter text: JSON that the decoder has accepted.
    static func repeatedName(in text: [UInt8]) -> String? {
        var containers: [Container] = []
        var isNameNext = false
        var index = 0
        while index < text.count {
            let byte = text[index]
            index += 1
            switch byte {
            case UInt8(ascii: "{"):
                containers.append(.object([]))
                isNameNext = true
            case UInt8(ascii: "["):
                containers.append(.array)
                isNameNext = false
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = containers.popLast()
            case UInt8(ascii: ","):
                if case .object? = containers.last { isNameNext = true } else { isNameNext = false }
            case UInt8(ascii: "\""):
                let start = index - 1
                while index < text.count, text[index] != UInt8(ascii: "\"") {
                    index += text[index] == UInt8(ascii: "\\") ? 2 : 1
                }
                index = min(index + 1, text.count)
                guard isNameNext, case .object(var names)? = containers.popLast() else { continue }
                isNameNext = false
                let name = string(text[start..<index])
                guard names.insert(name).inserted else { return name }
                containers.append(.object(names))
            default: continue
            }
        }
        return nil
    }

    /// - Parameter quoted: a string with its quotation marks.
    private static func string(_ quoted: ArraySlice<UInt8>) -> String {
        guard quoted.contains(UInt8(ascii: "\\")), let text = try? JSONDecoder().decode(String.self, from: Data(quoted))
        else { return String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self) }
        return text
    }
}
