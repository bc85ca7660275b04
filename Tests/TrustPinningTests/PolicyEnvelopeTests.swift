// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinningTesting

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Signed policies")
struct PolicyEnvelopeTests {
    private func code(_ body: () throws -> Void) -> EnvelopeError.Code? {
        do {
            try body()
            return nil
        } catch { return (error as? EnvelopeError)?.code ?? .malformed }
    }

    private func verify(_ envelope: PolicyEnvelope, on day: TestDate = .today) -> EnvelopeError.Code? {
        code { _ = try Publisher.verifier().verify(envelope, at: day.date) }
    }

    @Test(
        "Signed policies are verified with each algorithm, after a JSON round trip",
        arguments: PolicyEnvelope.Algorithm.allCases)
    func roundTrip(algorithm: PolicyEnvelope.Algorithm) throws {
        let policies = try Publisher.policies("one")
        let envelope = try Publisher.envelope(policies, version: 7, algorithm)
        let read = try PolicyEnvelope(json: envelope.bytes)
        #expect(read == envelope)
        let verified = try Publisher.verifier().verify(read, at: TestDate.today.date)
        #expect(verified.policies == policies)
        #expect(verified.envelope.version == 7)
        #expect(verified.mayOnlyTighten == (algorithm == .hmacSHA256))
        let key = try Publisher.key(algorithm)
        if let publicKey = key.publicKey { #expect(try PolicyVerificationKey(der: publicKey).algorithm == algorithm) }
    }

    @Test(
        "Signed policies are refused if any signed field was changed",
        arguments: PolicyEnvelope.Algorithm.allCases)
    func everyField(algorithm: PolicyEnvelope.Algorithm) throws {
        let good = try Publisher.envelope(Publisher.policies("one"), version: 7, algorithm)
        var payload = good.payload
        payload[payload.count - 2] ^= 1
        #expect(try verify(good.changed(version: 8)) == .badSignature)
        #expect(try verify(good.changed(issued: good.issued - 1)) == .badSignature)
        #expect(try verify(good.changed(expires: good.expires + 1)) == .badSignature)
        #expect(try verify(good.changed(payload: payload)) == .badSignature)
        #expect(try verify(good.changed(payload: [])) == .badSignature)
        #expect(try verify(good.changed(signature: [])) == .badSignature)
        #expect(try verify(good.changed(appID: "com.example.other")) == .wrongApp)
        #expect(try verify(good.changed(environment: "development")) == .wrongEnvironment)
        #expect(try verify(good.changed(keyID: "nobody")) == .unknownKey)
        for other in PolicyEnvelope.Algorithm.allCases where other != algorithm {
            #expect(try verify(good.changed(algorithm: other)) == .wrongAlgorithm)
            #expect(try verify(good.changed(algorithm: other, keyID: other.rawValue)) == .badSignature)
        }
        for index in good.signature.indices {
            var signature = good.signature
            signature[index] ^= 0x40
            #expect(try verify(good.changed(signature: signature)) == .badSignature, "byte \(index)")
        }
        // Bytes cannot be moved from one field to the next.
        let moved = try good.changed(keyID: good.keyID)
        #expect(moved.signedBytes == good.signedBytes)
        let one = try good.changed(appID: "ab", environment: "c").signedBytes
        #expect(try one != good.changed(appID: "a", environment: "bc").signedBytes)
    }

    @Test("Signed policies are refused before their issue time and after their expiry")
    func times() throws {
        let envelope = try Publisher.envelope(Publisher.policies("one"))
        #expect(verify(envelope, on: TestDate(2026, 5, 31)) == .notYetIssued)
        #expect(verify(envelope, on: TestDate(2026, 6, 7)) == nil)
        #expect(verify(envelope, on: TestDate(2026, 6, 8)) == .expired)
        let early = TestDate.today.date.addingTimeInterval(-299)
        #expect(code { _ = try Publisher.verifier().verify(envelope, at: early) } == nil)
        // An accepted envelope is verified again without its times.
        #expect(code { _ = try Publisher.verifier().verify(envelope, at: nil) } == nil)
    }

    @Test("Signed policies below the app's minimum version are refused")
    func lowestVersion() throws {
        let verifier = try Publisher.verifier(lowestVersion: 5)
        for (version, expected) in [(4, EnvelopeError.Code.rolledBack), (5, nil), (6, nil)]
            as [(Int64, EnvelopeError.Code?)]
        {
            let envelope = try Publisher.envelope(Publisher.policies("one"), version: version)
            #expect(code { _ = try verifier.verify(envelope, at: TestDate.today.date) } == expected)
        }
    }

    @Test("Signed policies are refused if their payload is not a valid policy set")
    func badPolicies() throws {
        for payload in ["", "{}", #"{"version": 1, "unlistedHosts": "refuse", "hosts": [{"host": "*.com"}]}"#] {
            let envelope = try PolicyEnvelope.sign(
                payload: Array(payload.utf8), appID: "com.example.app", environment: .production, keyID: "ed25519",
                version: 1, issued: Int64(TestDate.today.seconds), lifetime: 60, with: Publisher.key(.ed25519))
            #expect(verify(envelope) == .badPolicies)
        }
    }

    @Test("Malformed envelopes are refused: no signature, no version, unknown members, truncated")
    func malformed() throws {
        let good = try Publisher.envelope(Publisher.policies("one"))
        let lines = good.json.split(separator: "\n")
        // Each of the ten members is required.
        for index in 1..<(lines.count - 1) {
            var rest = lines
            rest.remove(at: index)
            let text = rest.joined(separator: "\n").replacing(",\n}", with: "\n}")
            #expect(code { _ = try PolicyEnvelope(json: Array(text.utf8)) } == .malformed, "without \(lines[index])")
        }
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"), ("\"ed25519\"", "\"none\""), ("\"version\": 1", "\"version\": 0"),
            ("\"version\": 1", "\"version\": -1"), ("\"version\": 1", "\"version\": 1.0"),
            ("\"version\": 1", "\"version\": \"1\""),
            ("\"format\": 1", "\"format\": 1, \"alg\": \"none\""), ("\"format\": 1", "\"format\": 1, \"format\": 1"),
            ("com.example.app", ""), ("\"expires\": ", "\"expires\": -"),
        ] {
            let text = good.json.replacing(from, with: to)
            #expect(text != good.json)
            #expect(code { _ = try PolicyEnvelope(json: Array(text.utf8)) } == .malformed, "\(to)")
        }
        for length in 0..<(good.bytes.count - 2) {
            #expect(code { _ = try PolicyEnvelope(json: Array(good.bytes[..<length])) } == .malformed, "\(length)")
        }
        // Policies without an envelope are refused.
        #expect(code { _ = try PolicyEnvelope(json: good.payload) } == .malformed)
        let huge = [UInt8](repeating: 0x20, count: PolicyEnvelope.maximumSize + 1)
        #expect(code { _ = try PolicyEnvelope(json: huge) } == .malformed)
    }

    @Test("Short or constant secrets, and unsupported keys, are refused")
    func badKeys() throws {
        #expect(code { _ = try PolicyVerificationKey(hmacSecret: [UInt8](0..<31)) } == .badKey)
        #expect(code { _ = try PolicyVerificationKey(hmacSecret: []) } == .badKey)
        #expect(code { _ = try PolicySigningKey(hmacSecret: [UInt8](repeating: 7, count: 64)) } == .badKey)
        for algorithm in [TestKey.Algorithm.p521, .rsa2048, .secp256k1, .ed448] {
            let key = try TestKey(algorithm, "publisher")
            #expect(code { _ = try PolicyVerificationKey(der: key.subjectPublicKeyInfo) } == .badKey)
            #expect(code { _ = try PolicySigningKey(pem: key.pem) } == .badKey)
        }
        let good = try TestKey(.p256, "publisher")
        let pem = PEMWriter.pem("PUBLIC KEY", good.subjectPublicKeyInfo)
        #expect(try PolicyVerificationKey(pem: pem).algorithm == .ecdsaP256)
        #expect(code { _ = try PolicyVerificationKey(pem: pem + pem) } == .badKey)
        #expect(code { _ = try PolicyVerificationKey(pem: good.pem) } == .badKey)
        #expect(code { _ = try PolicyVerificationKey(pem: "") } == .badKey)
    }
}
