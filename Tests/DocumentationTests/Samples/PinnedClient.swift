// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// docs/trust-pinning.md: the same file on Linux and, compiled by scripts/apple with Examples/PinnedApp, on Apple's platforms.

import Foundation
import TrustPinning
import TrustPinningFoundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Creates the client for the app's servers. Call it once, when the app starts.
func makeClient() throws -> PinnedSession {
    let policy = try PinningPolicy(pins: [
        Pin(.spki, "sha256/NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc="),
        Pin(.spki, "sha256/r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E=", role: .backup),
    ])
    let policies = try PolicySet([HostPolicy(.exact("api.example.com"), policy)], unlisted: .systemTrust)
    return PinnedSession(trust: TrustEvaluator(policies: policies))
}

// docs/trust-pinning.md
func makeClient(
    production: PolicySet, acceptance: PolicySet, bundle: [UInt8], passphrase: String
) throws -> PinnedSession {
    let trust = TrustEvaluator(
        configuration: try TrustConfiguration(
            [.production: production, .acceptance: acceptance], selected: .acceptance))
    let identities = ClientIdentities()
    identities.set(
        try ClientIdentity(pkcs12: bundle, passphrase: passphrase), for: [try .exact("api.example.com")],
        in: .acceptance)
    return PinnedSession(trust: trust, identities: identities)
}

// docs/trust-pinning.md
func watch(_ trust: TrustEvaluator) async {
    for await activity in trust.activity() {
        switch activity {
        case .judged(let evaluation): print(evaluation.host, evaluation.decision)
        case .identity(.used(let host), _): print(host, "received the client identity")
        case .identity(let event, let environment): print(event, "in", environment)
        }
    }
}

// docs/trust-pinning.md
func keepUpToDate(
    _ trust: TrustEvaluator, _ session: PinnedSession, verifier: RemotePolicyVerifier, folder: URL, url: URL
) async throws {
    let updater = RemotePolicyUpdater(
        evaluator: trust, verifier: verifier, store: FileRemotePolicyStore(folder: folder),
        transport: PinnedEnvelopeTransport(session: session, url: url))
    try await updater.restore()
    try await updater.update()
}

// docs/trust-pinning.md
func reporting(_ policies: PolicySet) -> TrustEvaluator {
    let reporter = PinFailureReporter(
        app: ReportingApp(bundleID: "com.example.app", version: "1.0"), uris: ["https://reports.example.com/pins"],
        transport: SessionReportTransport())
    let trust = TrustEvaluator(policies: policies, observers: [reporter.observer])
    return trust
}

// docs/trust-pinning.md
enum Program {
    static func main() async throws {
        let client = try makeClient()
        guard let url = URL(string: "https://api.example.com/greeting") else { return }
        do {
            let (data, response) = try await client.data(from: url)
            print((response as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
        } catch PinnedSessionError.untrusted(_, let verdict) {
            print("refused:", verdict.reason)  // Contains the server's key if no pin matches.
        } catch {
            print("failed:", error)  // No network, a time-out, or no HTTP.
        }
    }
}
