// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

@_exported import Foundation
import Synchronization

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/security/sectrust
// https://developer.apple.com/documentation/security/sectrustevaluatewitherror(_:_:)
// https://developer.apple.com/documentation/security/sectrustcopycertificatechain(_:)
// https://developer.apple.com/documentation/security/seccertificatecreatewithdata(_:_:)
// https://developer.apple.com/documentation/security/seccertificatecopydata(_:)
// https://developer.apple.com/documentation/security/secpolicycreatessl(_:_:)
//
// Core Foundation's types are Swift's and Foundation's here. What is written to be compiled there and here makes strings
// with `NSString(string:) as CFString`. Whether a chain is trusted is what a test says (`StandInTrust`): nothing is
// verified here.

public typealias CFData = Data
public typealias CFArray = [AnyObject]
public typealias CFDate = Date
public typealias CFError = NSError
public typealias CFAllocator = AnyObject

public final class SecCertificate: Sendable {
    let data: Data
    init(_ data: Data) { self.data = data }
}

public final class SecPolicy: Sendable {
    /// The host name of a policy for servers; nil for any.
    public let standInHostName: String?
    init(_ hostName: String?) { standInHostName = hostName }
}

public final class SecTrust: Sendable {
    struct State: Sendable {
        var certificates: [SecCertificate]
        var policies: [SecPolicy]
        var anchors: [SecCertificate]?
        var anchorsOnly = false
        var date: Date?
    }

    let state: Mutex<State>
    init(_ certificates: [SecCertificate], _ policies: [SecPolicy]) {
        state = Mutex(State(certificates: certificates, policies: policies))
    }
}

/// Nil when the data is no certificate, which is not looked into here: a DER sequence is one.
public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? {
    data.first == 0x30 ? SecCertificate(data) : nil
}

public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { certificate.data }

public func SecPolicyCreateSSL(_ server: Bool, _ hostname: CFString?) -> SecPolicy {
    SecPolicy(hostname.map { $0.description })
}

public func SecPolicyCreateBasicX509() -> SecPolicy { SecPolicy(nil) }

private func list<Element>(_ value: Any?, _ type: Element.Type) -> [Element] {
    (value as? [Element]) ?? (value as? Element).map { [$0] } ?? []
}

public func SecTrustCreateWithCertificates(
    _ certificates: Any, _ policies: Any?, _ trust: UnsafeMutablePointer<SecTrust?>
) -> OSStatus {
    let found = list(certificates, SecCertificate.self)
    guard !found.isEmpty else { return errSecParam }
    trust.pointee = SecTrust(found, list(policies, SecPolicy.self))
    return errSecSuccess
}

public func SecTrustSetPolicies(_ trust: SecTrust, _ policies: Any) -> OSStatus {
    let found = list(policies, SecPolicy.self)
    guard !found.isEmpty else { return errSecParam }
    trust.state.withLock { $0.policies = found }
    return errSecSuccess
}

public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchorCertificates: CFArray?) -> OSStatus {
    trust.state.withLock { $0.anchors = anchorCertificates.map { list($0, SecCertificate.self) } }
    return errSecSuccess
}

public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ anchorCertificatesOnly: Bool) -> OSStatus {
    trust.state.withLock { $0.anchorsOnly = anchorCertificatesOnly }
    return errSecSuccess
}

public func SecTrustSetVerifyDate(_ trust: SecTrust, _ verifyDate: CFDate) -> OSStatus {
    trust.state.withLock { $0.date = verifyDate }
    return errSecSuccess
}

public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    guard let failure = StandInTrust.evaluate(trust) else { return true }
    error?.pointee = failure
    return false
}

/// The chain that was built: here, the certificates as they were given.
public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? { trust.state.withLock { $0.certificates } }

/// What a test says about trust.
public enum StandInTrust {
    /// What is known of a trust when it is evaluated.
    public struct Question: Sendable {
        public let certificates: [Data]
        public let hostNames: [String]
        /// Nil where the system's anchors were not replaced.
        public let anchors: [Data]?
        public let anchorsOnly: Bool
        public let date: Date?
    }

    private static let verdicts = Mutex<[Data: @Sendable (Question) -> NSError?]>([:])

    /// Decides about chains with this leaf from now on: nil trusts it. Others are not trusted.
    public static func decide(leaf: Data, _ verdict: @escaping @Sendable (Question) -> NSError?) {
        verdicts.withLock { $0[leaf] = verdict }
    }

    static func evaluate(_ trust: SecTrust) -> NSError? {
        let question = trust.state.withLock { state in
            Question(
                certificates: state.certificates.map(\.data), hostNames: state.policies.compactMap(\.standInHostName),
                anchors: state.anchors?.map(\.data), anchorsOnly: state.anchorsOnly, date: state.date)
        }
        let untrusted = NSError(domain: "NSOSStatusErrorDomain", code: -67_843)
        guard let leaf = question.certificates.first, let verdict = verdicts.withLock({ $0[leaf] }) else {
            return untrusted
        }
        return verdict(question)
    }
}
