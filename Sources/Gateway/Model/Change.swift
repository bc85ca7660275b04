// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials

/// A change in the store. A follower requests the changes after the last one that it knows.
package struct Change: Hashable, Sendable {
    package enum Subject: Hashable, Sendable {
        /// The user was added, changed or removed, or has expired.
        case user(UserID)
        case device(DeviceID)
        /// The rules of a user or a device.
        case rules(Rule.Owner)
        /// The gateway's own keys.
        case serverKeys
    }

    /// The number of the change. Later changes have higher numbers.
    package let sequence: Int64
    package let at: Date
    package let subject: Subject

    package init(sequence: Int64, at: Date, subject: Subject) {
        self.sequence = sequence
        self.at = at
        self.subject = subject
    }
}
