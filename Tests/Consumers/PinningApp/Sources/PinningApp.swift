// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TrustPinning

@main
enum PinningApp {
    static func main() async throws {
        let policy = try PinningPolicy(
            pins: [Pin(.spki, "sha256/NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc=")], mode: .audit)
        let policies = try PolicySet(
            [HostPolicy(.includingSubdomains("example.com"), policy)], unlisted: .systemTrust)
        let evaluator = TrustEvaluator(policies: policies, systemTrust: RootStoreTrust())
        print(await evaluator.evaluate(chain: [], host: "www.example.com").reason)
    }
}
