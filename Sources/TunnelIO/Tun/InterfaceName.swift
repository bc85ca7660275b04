// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The rules for the name of an interface.
enum InterfaceName {
    /// - Throws: `.invalidInterfaceName` if the name is empty, longer than 15 bytes, `.` or `..`, or contains a slash, a
    ///   colon, a percent sign (which the system would expand), a space or a control character.
    static func validate(_ name: String) throws(TunnelIOError) {
        guard isValid(name) else { throw TunnelIOError(.invalidInterfaceName(name)) }
    }

    /// Whether `text` is a valid name, or one with a single `%d`, which the system replaces with a number.
    static func isTemplate(_ text: String) -> Bool {
        let parts = text.split(separator: "%", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].first == "d" else { return isValid(text) }
        return text.utf8.count <= longest && isValid(parts[0] + "0" + parts[1].dropFirst())
    }

    private static let longest = 15

    private static func isValid(_ name: some StringProtocol) -> Bool {
        let isFine = name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f && !forbidden.contains($0) }
        return (1...longest).contains(name.utf8.count) && isFine && name != "." && name != ".."
    }

    private static let forbidden = [UInt8(ascii: "/"), UInt8(ascii: ":"), UInt8(ascii: "%")]
}
