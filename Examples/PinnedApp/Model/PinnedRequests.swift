// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TrustPinning
import TrustPinningFoundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// Samples of docs/trust-pinning.md for Apple's platforms only.

/// An app's own `URLSession`, with the delegate that answers its challenges about TLS.
func makeSession(_ trust: TrustEvaluator) -> (URLSession, ChallengeResponder) {
    let responder = ChallengeResponder(trust: trust)
    let session = URLSession(
        configuration: .ephemeral, delegate: PinningDelegate(responder), delegateQueue: nil)
    return (session, responder)
}

/// An evaluator that writes to the unified log.
func makeLoggingEvaluator(_ policies: PolicySet) -> TrustEvaluator {
    let trust = TrustEvaluator(
        policies: policies, observers: [TrustEvaluator.unifiedLog(subsystem: "com.example.app")])
    return trust
}

/// An identity that the app stored in the keychain with its own tag.
func makeIdentities() throws -> ClientIdentities {
    let identities = ClientIdentities()
    let hosts = [try HostPattern.exact("api.example.com")]
    identities.setLoader(for: hosts) { () throws(ClientIdentityError) in
        try ClientIdentity(keychainTag: "com.example.app.client")
    }
    return identities
}
