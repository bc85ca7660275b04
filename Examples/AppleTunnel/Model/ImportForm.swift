// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// A new WireGuard profile: a name and the text of a wg-quick file. The text never shows a complete secret key: each is
/// replaced by a mark when it is entered or pasted.
public struct ImportForm: Equatable, Sendable {
    /// The name of the profile.
    public var name = ""
    /// The text for the user, with marks in place of private and pre-shared keys.
    public var text = "" {
        didSet { text = hidingKeys(in: text) }
    }
    /// The keys, in the order of their marks' numbers.
    private var keys: [String] = []

    /// Creates an empty form.
    public init() {}

    /// The text with the keys.
    public var wgQuick: String {
        keys.indices.reduce(text) { $0.replacing(Self.mark($1), with: keys[$1]) }
    }

    private static func mark(_ index: Int) -> String { "(hidden key \(index + 1))" }

    private mutating func hidingKeys(in text: String) -> String {
        // A line break of Windows is a single character.
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: { $0 == "\n" || $0 == "\r\n" }).map {
            line in
            guard let sign = line.firstIndex(of: "=") else { return line }
            let field = line[..<sign].filter { !$0.isWhitespace }.lowercased()
            let value = line[line.index(after: sign)...].drop(while: \.isWhitespace).prefix {
                !$0.isWhitespace && $0 != "#"
            }
            guard ["privatekey", "presharedkey"].contains(field), PrivateKey(base64: String(value)) != nil
            else { return line }
            keys.append(String(value))
            return line.replacing(value, with: Self.mark(keys.count - 1), maxReplacements: 1)
        }
        return lines.joined(separator: "\n")
    }
}
