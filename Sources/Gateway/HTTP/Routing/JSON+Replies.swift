// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning
import TunnelSystem

// The JSON of replies. A reply contains a secret only if that is its purpose, and never the hash of a secret.

extension JSON {
    static func time(_ date: Date) -> JSON { .string(date.formatted(.iso8601)) }
    static func count(_ value: some BinaryInteger) -> JSON { .integer(Int64(clamping: value)) }
    static func texts(_ values: [some CustomStringConvertible]) -> JSON {
        .array(values.map { .string($0.description) })
    }

    /// An object without the members that are `nil`.
    static func members(_ members: [String: JSON?]) -> JSON { .object(members.compactMapValues { $0 }) }
}

extension Declared {
    /// The resource in its form for replies.
    var json: JSON { Self.message.encode(self) }
}
