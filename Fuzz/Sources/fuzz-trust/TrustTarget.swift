// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftASN1
import X509

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Certificates, policies, envelopes, host names and signatures: accepted input is written unchanged, and unsigned input is
/// not trusted.
func fuzzTrust(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let kind = input.byte()
    let rest = input.rest()
    switch kind % 5 {
    case 0: certificate(rest)
    case 1: policies(rest)
    case 2: envelope(rest)
    case 3: hostName(rest)
    default: signature(rest)
    }
}

/// Two parsers agree about a certificate.
private func certificate(_ der: [UInt8]) {
    _ = try? KeySource(der: der)
    guard let ours = try? CertificateFields(der) else { return }
    require(ours.der == der, "a certificate is not its bytes")
    _ = ours.keyDescription
    _ = ours.subjectCommonName
    if let host = try? HostName("www.example.com") { _ = ServerIdentity.failure(of: ours, host: host, at: 0) }
    guard let theirs = try? Certificate(derEncoded: der) else { return }
    var serializer = DER.Serializer()
    guard (try? serializer.serialize(theirs.publicKey)) != nil else { return }
    require(serializer.serializedBytes == ours.subjectPublicKeyInfo, "two readers see two keys")
    require(theirs.notValidAfter.timeIntervalSince1970 == Double(ours.notAfter), "two readers see two dates")
    guard let names = try? theirs.extensions.subjectAlternativeNames else { return }
    let dnsNames = names.compactMap { name -> String? in
        guard case .dnsName(let text) = name else { return nil }
        return text
    }
    require(dnsNames == ours.alternativeNames?.dnsNames ?? [], "two readers see two lists of names")
}

/// Policies that are read can be written, mean the same then, and do not loosen themselves.
private func policies(_ json: [UInt8]) {
    guard let set = try? PolicySet(json: json) else { return }
    guard let again = try? PolicySet(json: set.json) else { finding("what was written cannot be read:\n\(set.json)") }
    require(again == set, "what was written means something else:\n\(set.json)")
    require(set.loosenings(comparedTo: set).isEmpty, "policies loosen themselves:\n\(set.json)")
}

private let verifier: RemotePolicyVerifier? = {
    guard let secret = try? PolicyVerificationKey(hmacSecret: (0..<32).map { $0 &* 37 &+ 11 }) else { return nil }
    return RemotePolicyVerifier(appID: "app", keys: ["k": secret])
}()

/// The fuzzer does not have the secret.
private func envelope(_ json: [UInt8]) {
    guard let envelope = try? PolicyEnvelope(json: json) else { return }
    guard let again = try? PolicyEnvelope(json: Array(envelope.json.utf8)) else {
        finding("what was written cannot be read:\n\(envelope.json)")
    }
    require(again == envelope, "what was written means something else:\n\(envelope.json)")
    guard let verifier else { finding("there is no verifier") }
    require((try? verifier.verify(envelope, at: nil)) == nil, "a forged envelope was believed:\n\(envelope.json)")
}

private func hostName(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    _ = Timestamp.parse(text)
    guard let host = try? HostName(text) else { return }
    guard let again = try? HostName(host.description) else { finding("\(host) is no host any more") }
    require(again == host, "\(host) becomes \(again)")
    guard let pattern = try? HostPattern(host.description) else { finding("\(host) is no pattern") }
    require(pattern.matches(host), "\(host) does not match itself")
}

private func signature(_ bytes: [UInt8]) {
    for form in [ECDSASignatureForm.p256, .p384] {
        guard let raw = form.raw(bytes, requiresLowS: false) else { continue }
        require(raw.count == form.order.count * 2, "a signature has \(raw.count) bytes")
        guard let low = form.lowS(bytes) else { finding("a signature has no lower form") }
        require(form.raw(low, requiresLowS: true) != nil, "the lower form is not low")
        if form.raw(bytes, requiresLowS: true) != nil { require(low == bytes, "a signature has two encodings") }
    }
}
