// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TrustPinning
import TrustPinningNIO
import WireGuardDevice

@main
enum Server {
    static func main() async throws {
        let policies = try PolicySet(
            [HostPolicy(.exact("api.example.com"), PinningPolicy(mode: .audit))], unlisted: .systemTrust)
        let evaluator = TrustEvaluator(policies: policies, systemTrust: RootStoreTrust())
        print(PinnedSession.self, evaluator.policies.hosts.count, MemoryBudget.gateway(peers: 10))
    }
}
