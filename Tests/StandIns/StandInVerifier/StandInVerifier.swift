// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Security
import SwiftASN1
import Synchronization
@_spi(FixedExpiryValidationTime) import X509

/// Verifies chains with swift-certificates: signatures, dates, constraints, and the name of the host. It finds one path, to a
/// given anchor or a root of the device. Apple's own requirements (transparency, lengths of validity, revocation)
/// and certificates that are fetched are not modelled.
public enum StandInVerifier {
    /// Makes this verifier evaluate trusts. It is a separate module because swift-certificates imports Security if it is
    /// available.
    public static func install() { StandInTrust.setVerifier(answer) }

    @Sendable private static func answer(_ question: StandInTrust.Question) -> StandInTrust.Answer {
        guard let leaf = question.certificates.first.flatMap(certificate) else { return .failed(errSecNotTrusted) }
        let roots = question.anchors + (question.anchorsOnly ? [] : question.deviceRoots)
        let intermediates = question.certificates.dropFirst().compactMap(certificate)
        let date = question.date ?? Date()
        guard date >= leaf.notValidBefore else { return .failed(errSecCertificateNotValidYet) }
        guard date <= leaf.notValidAfter else { return .failed(errSecCertificateExpired) }
        let result = InlineExecutor.run {
            var verifier = Verifier(rootCertificates: CertificateStore(roots.compactMap(certificate))) {
                RFC5280Policy(fixedExpiryValidationTime: date)
                ServerUsagePolicy(isServer: question.isServer)
                ServerIdentityPolicy(
                    serverHostname: isAddress(question.host) ? nil : question.host,
                    serverIP: isAddress(question.host) ? question.host : nil)
            }
            return await verifier.validate(leaf: leaf, intermediates: CertificateStore(intermediates))
        }
        switch result {
        case .validCertificate(let chain):
            let chain = chain.compactMap { certificate in
                var serializer = DER.Serializer()
                return (try? serializer.serialize(certificate)).map { serializer.serializedBytes }
            }
            return .trusted(chain: chain)
        case .couldNotValidate(let failures):
            let reasons = failures.map { String(describing: $0.policyFailureReason) }
            let isName = reasons.contains { $0.contains("SAN") || $0.contains("Common name") }
            return .failed(isName ? errSecHostNameMismatch : errSecNotTrusted)
        }
    }

    private static func certificate(_ der: [UInt8]) -> Certificate? { try? Certificate(derEncoded: der) }

    private static func isAddress(_ host: String) -> Bool {
        host.contains(":") || host.split(separator: ".").last?.allSatisfy(\.isNumber) == true
    }
}

/// Checks that a leaf with extended key usages is for servers, as Security's policy for servers requires.
private struct ServerUsagePolicy: VerifierPolicy {
    let isServer: Bool
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [.X509ExtensionID.extendedKeyUsage]

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
        guard isServer, let usages = try? chain.leaf.extensions.extendedKeyUsage else { return .meetsPolicy }
        return usages.contains(.serverAuth) || usages.contains(.any)
            ? .meetsPolicy : .failsToMeetPolicy(reason: "the certificate is not for servers")
    }
}

/// Runs `async` code that never suspends on the calling thread, because Security's function is not `async`.
private final class InlineExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])
    /// Raised for each job, and once for the result.
    private let news = DispatchSemaphore(value: 0)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        news.signal()
    }

    static func run<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Value {
        let executor = InlineExecutor()
        let box = Box<Value>()
        Task(executorPreference: executor) {
            let value = await operation()
            box.result.withLock { $0 = value }
            executor.news.signal()
        }
        while true {
            executor.news.wait()
            if let value = box.result.withLock({ $0 }) { return value }
            let job = executor.jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            job?.runSynchronously(on: executor.asUnownedTaskExecutor())
        }
    }

    private final class Box<Value: Sendable>: Sendable {
        let result = Mutex<Value?>(nil)
    }
}
