// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials
import Provisioning

/// A rule that is added to those that a user or device has.
package struct RuleAddition: Equatable, Sendable {
    package var rule: RuleDraft
    /// Whether the rule comes before the others rather than after them.
    package var isFirst: Bool

    package init(_ rule: RuleDraft, isFirst: Bool = false) {
        self.rule = rule
        self.isFirst = isFirst
    }
}

extension Rule {
    /// The most rules that a user or device can have.
    package static let most = 100

    /// A text that differs between two different lists of rules.
    ///
    /// A rule never changes, and each rule has its own ID, so the IDs identify the list.
    package static func version(of rules: [Rule]) -> String {
        let ids = rules.map(\.id.description).joined(separator: " ")
        return Data(SHA256.hash(data: Array(ids.utf8)).prefix(16)).base64EncodedString()
    }
}
