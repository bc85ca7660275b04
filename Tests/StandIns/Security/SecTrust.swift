// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/security/seccertificatecreatewithdata(_:_:)
// https://developer.apple.com/documentation/security/seccertificatecopydata(_:)
// https://developer.apple.com/documentation/security/secpolicycreatessl(_:_:)
// https://developer.apple.com/documentation/security/sectrustcreatewithcertificates(_:_:_:)
// https://developer.apple.com/documentation/security/sectrustsetpolicies(_:_:)
// https://developer.apple.com/documentation/security/sectrustsetverifydate(_:_:)
// https://developer.apple.com/documentation/security/sectrustsetanchorcertificates(_:_:)
// https://developer.apple.com/documentation/security/sectrustsetanchorcertificatesonly(_:_:)
// https://developer.apple.com/documentation/security/sectrustcopyexceptions(_:)
// https://developer.apple.com/documentation/security/sectrustsetexceptions(_:_:)
// https://developer.apple.com/documentation/security/sectrustevaluatewitherror(_:_:)
// https://developer.apple.com/documentation/security/sectrustcopycertificatechain(_:)
//
// The result of a trust is computed from the certificates where a test has installed `StandInVerifier`, unless it says
// otherwise with `StandInTrust.answer`; else nothing is trusted. Changing a trust takes its result back, and its chain is that of an evaluation, which asking for
// the chain makes if there was none.

public typealias CFAllocator = NSObject
public typealias CFArray = NSArray
public typealias CFData = NSData
public typealias CFDate = NSDate
public typealias CFError = NSError
public typealias CFIndex = Int

public let errSecCreateChainFailed: OSStatus = -25318
public let errSecHostNameMismatch: OSStatus = -67602
public let errSecCertificateExpired: OSStatus = -67818
public let errSecCertificateNotValidYet: OSStatus = -67819
public let errSecNotTrusted: OSStatus = -67843

public final class SecCertificate: NSObject {
    let data: NSData
    var bytes: [UInt8] { Array(Data(referencing: data)) }

    init(_ data: NSData) { self.data = data }
}

public final class SecPolicy: NSObject {
    fileprivate let isServer: Bool
    fileprivate let host: String

    fileprivate init(isServer: Bool, host: String) {
        self.isServer = isServer
        self.host = host
    }
}

public final class SecTrust: NSObject {
    fileprivate let certificates: [SecCertificate]
    fileprivate var policy: SecPolicy { didSet { result = nil } }
    fileprivate var date: NSDate? { didSet { result = nil } }
    fileprivate var anchors: [SecCertificate] = [] { didSet { result = nil } }
    fileprivate var anchorsOnly = false { didSet { result = nil } }
    fileprivate var hasExceptions = false { didSet { result = nil } }
    /// The value of the task that created it: evaluations run on threads without a task.
    private let deviceRoots = StandInTrust.deviceRoots
    private let answer = StandInTrust.answer
    private var result: StandInTrust.Answer?

    fileprivate init(_ certificates: [SecCertificate], _ policy: SecPolicy) {
        self.certificates = certificates
        self.policy = policy
    }

    fileprivate func evaluate() -> StandInTrust.Answer {
        if let result { return result }
        let question = StandInTrust.Question(
            certificates: certificates.map(\.bytes), host: policy.host, isServer: policy.isServer,
            date: date.map { Date(timeIntervalSinceReferenceDate: $0.timeIntervalSinceReferenceDate) },
            anchors: anchors.map(\.bytes), anchorsOnly: anchorsOnly, deviceRoots: deviceRoots)
        var found = answer?(question) ?? StandInTrust.verify(question)
        if hasExceptions, case .failed = found { found = .trusted(chain: question.certificates) }
        result = found
        return found
    }
}

/// The results of trust evaluations.
public enum StandInTrust {
    public struct Question: Sendable {
        public let certificates: [[UInt8]]
        public let host: String
        public let isServer: Bool
        public let date: Date?
        public let anchors: [[UInt8]]
        public let anchorsOnly: Bool
        public let deviceRoots: [[UInt8]]
    }

    public enum Answer: Sendable {
        case trusted(chain: [[UInt8]])
        case failed(OSStatus)
    }

    /// For trusts that the task makes, instead of verifying.
    @TaskLocal public static var answer: (@Sendable (Question) -> Answer)?
    private final class Verifier: @unchecked Sendable {
        let lock = NSLock()
        var verify: (@Sendable (Question) -> Answer)?
    }
    private static let verifier = Verifier()

    /// For all tasks without their own answer.
    public static func setVerifier(_ verify: @escaping @Sendable (Question) -> Answer) {
        verifier.lock.withLock { verifier.verify = verify }
    }

    static func verify(_ question: Question) -> Answer {
        verifier.lock.withLock { verifier.verify }?(question) ?? .failed(errSecNotTrusted)
    }

    /// The roots of the device, for trusts that the task makes.
    @TaskLocal public static var deviceRoots: [[UInt8]] = []
}

public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? {
    // Security reads the certificate; an outer SEQUENCE is enough here.
    guard data.length > 2, Data(referencing: data).first == 0x30 else { return nil }
    return SecCertificate(data)
}

public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { certificate.data }

public func SecPolicyCreateSSL(_ server: Bool, _ hostname: CFString?) -> SecPolicy {
    SecPolicy(isServer: server, host: hostname.map { String(describing: $0) } ?? "")
}

public func SecTrustCreateWithCertificates(
    _ certificates: CFTypeRef, _ policies: CFTypeRef?, _ trust: UnsafeMutablePointer<SecTrust?>
) -> OSStatus {
    guard let list = (certificates as? NSArray)?.compactMap({ $0 as? SecCertificate }), !list.isEmpty,
        let policy = policies as? SecPolicy
    else { return errSecParam }
    trust.pointee = SecTrust(list, policy)
    return errSecSuccess
}

public func SecTrustSetPolicies(_ trust: SecTrust, _ policies: CFTypeRef) -> OSStatus {
    guard let policy = policies as? SecPolicy else { return errSecParam }
    trust.policy = policy
    return errSecSuccess
}

public func SecTrustSetVerifyDate(_ trust: SecTrust, _ verifyDate: CFDate) -> OSStatus {
    trust.date = verifyDate
    return errSecSuccess
}

public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchorCertificates: CFArray?) -> OSStatus {
    trust.anchors = anchorCertificates?.compactMap { $0 as? SecCertificate } ?? []
    // Given anchors are the only ones, until the next call changes this.
    trust.anchorsOnly = anchorCertificates != nil
    return errSecSuccess
}

public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ anchorCertificatesOnly: Bool) -> OSStatus {
    trust.anchorsOnly = anchorCertificatesOnly
    return errSecSuccess
}

public func SecTrustCopyExceptions(_ trust: SecTrust) -> CFData? { NSData(data: Data([1])) }

/// Exceptions let everything pass here.
public func SecTrustSetExceptions(_ trust: SecTrust, _ exceptions: CFData?) -> Bool {
    trust.hasExceptions = exceptions != nil
    return trust.hasExceptions
}

public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    switch trust.evaluate() {
    case .trusted: return true
    case .failed(let status):
        error?.pointee = NSError(domain: "NSOSStatusErrorDomain", code: Int(status))
        return false
    }
}

public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? {
    switch trust.evaluate() {
    case .trusted(let chain): NSArray(array: chain.map { SecCertificate(NSData(data: Data($0))) })
    // The chain as far as it can be built; here that is the one that the server sent.
    case .failed: NSArray(array: trust.certificates)
    }
}

public func CFErrorGetCode(_ error: CFError) -> CFIndex { error.code }
