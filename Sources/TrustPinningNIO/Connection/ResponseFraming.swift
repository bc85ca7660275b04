// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOHTTP1

/// The rules for a response head that determine the end of the message (RFC 9112, section 6).
enum ResponseFraming {
    /// Returns the rule that a head violates, or `nil` if it violates none.
    static func problem(of head: HTTPResponseHead) -> String? {
        guard head.status.code >= 100 else { return "its status \(head.status.code) must be at least 100" }
        let codings = head.headers["transfer-encoding"]
        guard let coding = codings.first, !(100..<200).contains(head.status.code) else { return nil }
        guard head.headers["content-length"].isEmpty else {
            return "it must not have both a length and a transfer coding"
        }
        guard head.version == .http1_1 else {
            return "a transfer coding must not be in HTTP/\(head.version.major).\(head.version.minor)"
        }
        // The request permits no other coding (RFC 9112, section 7.4), and none is decoded here.
        guard codings.count == 1, coding.lowercased() == "chunked" else {
            return "its transfer coding must be 'chunked' alone"
        }
        return nil
    }
}
