// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Removes everything that could be a key from a message that repeats the user's input.
package enum KeyRedaction {
    private static let placeholder = "(redacted)"
    /// A key has 43 or 44 characters in Base64 and 64 in hexadecimal. The margin is for a key that lost some
    /// characters.
    private static let shortestRun = 40

    package static func redact(_ text: String) -> String {
        var result = ""
        var run = ""
        func flush() {
            result += run.count >= shortestRun ? placeholder : run
            run = ""
        }
        for character in text {
            if isKeyCharacter(character) {
                run.append(character)
            } else {
                flush()
                result.append(character)
            }
        }
        flush()
        return result
    }

    private static func isKeyCharacter(_ character: Character) -> Bool {
        guard let value = character.asciiValue else { return false }
        switch value {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
            return true
        default: return false
        }
    }
}
