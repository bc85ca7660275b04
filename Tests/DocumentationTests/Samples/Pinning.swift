// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TrustPinning
import TrustPinningNIO

// README.md
func pinned(_ url: URL) async throws -> Data {
    let policy = try PinningPolicy(pins: [
        Pin(.spki, "sha256/NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc="),
        Pin(.spki, "sha256/r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E=", role: .backup),
    ])
    let policies = try PolicySet([HostPolicy(.exact("api.example.com"), policy)], unlisted: .systemTrust)
    let trust = TrustEvaluator(policies: policies, systemTrust: RootStoreTrust())
    let session = PinnedSession(tls: try PinnedTLS(trust: trust))
    let (data, _) = try await session.data(from: url)  // Throws before it sends, unless the server is the right one.
    return data
}

// docs/trust-pinning.md
func evaluate(_ chain: [[UInt8]], backupRequest: String) async throws -> TrustDecision {
    let next = try KeySource.read(pem: backupRequest)[0]  // certificate, request, public or private key
    let policy = try PinningPolicy(pins: [
        Pin(.spki, "sha256/NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc="),
        Pin(.spki, of: next, role: .backup),
    ])
    let policies = try PolicySet(
        [HostPolicy(.includingSubdomains("example.com"), policy)], unlisted: .systemTrust)
    let evaluator = TrustEvaluator(policies: policies, systemTrust: RootStoreTrust())
    let decision = await evaluator.evaluate(chain: chain, host: "www.example.com")
    return decision
}

// The article TrustPinningNIO
func fetch(_ url: URL, policies: String) async throws -> (Data, PinnedResponse) {
    let trust = TrustEvaluator(policies: try PolicySet(json: policies), systemTrust: RootStoreTrust())
    let session = PinnedSession(tls: try PinnedTLS(trust: trust))
    let (data, response) = try await session.data(from: url)
    return (data, response)
}
