// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials

/// That something is different from before. Whoever follows changes asks for those after the last that it has seen.
package struct Change: Hashable, Sendable {
    package enum Subject: Hashable, Sendable {
        /// Made, changed, expired or removed.
        case user(UserID)
        case device(DeviceID)
        /// The rules of a user or a device.
        case rules(Rule.Owner)
        /// The gateway's own keys.
        case serverKeys
    }

    /// Later changes have higher ones.
    package let sequence: Int64
    package let at: Date
    package let subject: Subject

    package init(sequence: Int64, at: Date, subject: Subject) {
        self.sequence = sequence
        self.at = at
        self.subject = subject
    }
}
