// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The text of resolv.conf(5).
package enum ResolvConf {
    /// Returns the addresses of the `nameserver` lines.
    package static func servers(in text: String) -> [String] {
        text.split(separator: "\n").compactMap { line in
            let words = line.split(whereSeparator: \.isWhitespace)
            return words.count >= 2 && words[0] == "nameserver" ? String(words[1]) : nil
        }
    }
}
