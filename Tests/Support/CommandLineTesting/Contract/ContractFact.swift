// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One promise of the command line: a command, an option, an exit status, or a member of a command's JSON output.
package struct ContractFact: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name of the promised thing, the program first, such as `culvert up --timeout`.
    package var key: String
    /// The form of the promised thing, such as `option, default 30`.
    package var form: String

    package init(_ key: String, _ form: String) {
        self.key = key
        self.form = form
    }

    /// Reads a fact as ``description`` writes it.
    /// - Returns: `nil` if the text has no form.
    init?(_ text: some StringProtocol) {
        guard let separator = text.firstRange(of: ": ") else { return nil }
        self.init(String(text[..<separator.lowerBound]), String(text[separator.upperBound...]))
    }

    package var description: String { "\(key): \(form)" }

    /// The program of the fact, which is the section of the file that the fact belongs to.
    var program: Substring { key.prefix { $0 != " " } }

    package static func < (a: ContractFact, b: ContractFact) -> Bool { (a.key, a.form) < (b.key, b.form) }

    /// The command of the fact: the words before the first one that names a part of a command.
    var command: ArraySlice<Substring> {
        let words = words
        guard form != Self.command else { return words[...] }
        return words.prefix { !$0.hasPrefix("-") && !["argument", "exit", "environment", "without"].contains($0) }
    }

    /// The word that a changelog must contain to cover the fact: an option, a value, a number, a member or a command.
    var word: Substring {
        let words = words
        if words.dropLast().last == "argument" { return "argument" }
        let last = words.last ?? ""
        guard words.dropLast().contains("--json") else { return last }
        // The last member of the path, without the brackets of a list.
        return (last.split(separator: ".").last ?? last).prefix { $0 != "[" }
    }

    private var words: [Substring] { key.split(separator: " ") }

    /// The form of a command.
    package static let command = "command"
}
