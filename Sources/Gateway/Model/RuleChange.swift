// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials
import Provisioning
import TunnelSystem

/// A rule to add to the rules of a user or a device.
package struct RuleAddition: Equatable, Sendable {
    package var rule: RuleDraft
    /// Whether the rule is added before the other rules instead of after them.
    package var isFirst: Bool

    package init(_ rule: RuleDraft, isFirst: Bool = false) {
        self.rule = rule
        self.isFirst = isFirst
    }

    static let message = CompleteMessage<RuleAddition>(
        RuleAddition.init(_:isFirst:),
        TypedField("rule", \.rule, .rule),
        TypedField("isFirst", \.isFirst, .flag, absent: false, "Add the rule before the others instead of after them"))
}

/// All rules of a user or a device.
package struct RuleList: Equatable, Sendable {
    var rules: [RuleDraft]

    package init(rules: [RuleDraft]) { self.rules = rules }

    static let message = CompleteMessage<RuleList>(
        RuleList.init(rules:), TypedField("rules", \.rules, .list(of: .rule, count: 0...Rule.most)))
}

extension ValueFormat where Value == RuleDraft {
    fileprivate static var rule: ValueFormat<RuleDraft> {
        ValueFormat(.named("RuleDraft")) { (json, field) throws(ContractError) in
            try Rule.message.decode(json, .create, at: field)
        } encode: {
            $0.json
        }
    }
}

extension Rule {
    /// The largest number of rules of a user or a device.
    package static let most = 100

    /// A text that differs between any two different lists of rules.
    ///
    /// A rule never changes, and each rule has its own ID, so the IDs identify the list.
    package static func version(of rules: [Rule]) -> String {
        let ids = rules.map(\.id.description).joined(separator: " ")
        return Data(SHA256.hash(data: Array(ids.utf8)).prefix(16)).base64EncodedString()
    }
}
