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
    let session = PinnedSession(trust: TrustEvaluator(policies: policies))
    // Without a matching pin, sends nothing and throws PinnedSessionError.untrusted with the reason.
    let (data, _) = try await session.data(from: url)
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

// docs/trust-pinning.md
func show(_ text: String) throws {
    print(try Pin(.spki, of: KeySource.read(pem: text)[0]).hash)
}

// docs/trust-pinning.md
func selfSigned(_ certificate: String, _ nextRequest: String) throws -> PinningPolicy {
    // A server with a self-made certificate, and the signing request of the next one.
    let policy = try PinningPolicy(
        pins: [
            Pin(.spki, of: KeySource.read(pem: certificate)[0], scope: .leaf),
            Pin(.spki, of: KeySource.read(pem: nextRequest)[0], role: .backup, scope: .leaf),
        ], requiresSystemTrust: false)
    return policy
}

// The article TrustPinningNIO
func fetch(_ url: URL, policies: String) async throws -> (Data, PinnedResponse) {
    let trust = TrustEvaluator(policies: try PolicySet(json: policies), systemTrust: RootStoreTrust())
    let session = PinnedSession(tls: try PinnedTLS(trust: trust))
    let (data, response) = try await session.data(from: url)
    return (data, response)
}
