// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import TrustPinning
import TrustPinningFoundation

// docs/trust-pinning.md
private func fetch(
    _ request: URLRequest, policies: PolicySet, identities: ClientIdentities
) async throws -> (Data, URLResponse) {
    let evaluator = TrustEvaluator(policies: policies, systemTrust: PlatformTrust())
    let session = PinnedSession(trust: evaluator, identities: identities)
    let (data, response) = try await session.data(for: request)
    return (data, response)
}
