// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Parses the text of a server.
enum ServerText {
    /// Returns the address in `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; `nil` for a name.
    static func address(in text: String) -> IPAddress? {
        if let address = try? IPAddress(text) { return address }
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            return try? IPAddress(text[text.index(after: text.startIndex)..<end])
        }
        return text.lastIndex(of: ":").flatMap { try? IPAddress(text[..<$0]) }
    }
}
