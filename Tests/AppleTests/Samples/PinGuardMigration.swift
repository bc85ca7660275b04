// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import TrustPinning
import TrustPinningFoundation

// docs/migrating-from-pinguard.md
/// Creates the evaluator, in place of the call of `PinGuard.configure`. Call it once, when the app starts.
func makeTrust() throws -> TrustEvaluator {
    let policy = try PinningPolicy(pins: [
        Pin(.spki, "NDCIt6TrQnfOk+lquunrmlPQB3K/7CLOCmSS5kW+KCc="),
        Pin(.spki, "r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E=", role: .backup),
    ])
    let production = try PolicySet([HostPolicy(.exact("api.example.com"), policy)], unlisted: .refuse)
    let development = try PolicySet([HostPolicy(.wildcard("dev.example.com"), policy)], unlisted: .systemTrust)
    return TrustEvaluator(
        configuration: try TrustConfiguration([.production: production, .development: development]),
        observers: [TrustEvaluator.unifiedLog(subsystem: "com.example.app")])
}

// docs/migrating-from-pinguard.md
private func makeSession(_ trust: TrustEvaluator, bundle: [UInt8], passphrase: String) throws -> PinnedSession {
    let identities = ClientIdentities(onEvent: { event in
        if case .renewalRequired(_, let end) = event { print("renew the client identity before", end) }
    })
    identities.set(
        try ClientIdentity(pkcs12: bundle, passphrase: passphrase), for: [try .exact("api.example.com")],
        in: .production)
    let session = PinnedSession(trust: trust, identities: identities)
    return session
}

// docs/migrating-from-pinguard.md
private func makeUpdater(
    _ trust: TrustEvaluator, _ session: PinnedSession, publicKey: String, folder: URL, url: URL
) throws -> RemotePolicyUpdater {
    let verifier = RemotePolicyVerifier(
        appID: "com.example.app", keys: ["2026": try PolicyVerificationKey(pem: publicKey)])
    let updater = RemotePolicyUpdater(
        evaluator: trust, verifier: verifier, store: FileRemotePolicyStore(folder: folder),
        transport: PinnedEnvelopeTransport(session: session, url: url))
    return updater
}
