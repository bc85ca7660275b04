// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials
import Provisioning
import TunnelSystem

/// A rule that is added to those that a user or device has.
package struct RuleAddition: Hashable, Sendable {
    package var content: RuleContent
    /// Whether the rule comes before the others rather than after them.
    package var isFirst: Bool

    package init(_ content: RuleContent, isFirst: Bool = false) {
        self.content = content
        self.isFirst = isFirst
    }

    static let message = CompleteMessage<RuleAddition>(
        RuleAddition.init(_:isFirst:),
        TypedField("rule", \.content, .rule),
        TypedField("isFirst", \.isFirst, .flag, absent: false, "Before the others rather than after them"))
}

/// All rules of a user or a device.
package struct RuleList: Hashable, Sendable {
    var rules: [RuleContent]

    package init(rules: [RuleContent]) { self.rules = rules }

    static let message = CompleteMessage<RuleList>(
        RuleList.init(rules:), TypedField("rules", \.rules, .list(of: .rule, count: 0...Rule.most)))
}

extension ValueFormat where Value == RuleContent {
    fileprivate static var rule: ValueFormat<RuleContent> {
        ValueFormat(.named("RuleDraft")) { (json, field) throws(ContractError) in
            try RuleContent(json: json, at: field)
        } encode: {
            RuleContent.message.encode($0)
        }
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
