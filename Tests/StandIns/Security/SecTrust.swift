// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/security/seccertificatecreatewithdata(_:_:)
// https://developer.apple.com/documentation/security/secpolicycreatessl(_:_:)
// https://developer.apple.com/documentation/security/sectrustcreatewithcertificates(_:_:_:)
// https://developer.apple.com/documentation/security/sectrustevaluatewitherror(_:_:)
// https://developer.apple.com/documentation/security/sectrustcopycertificatechain(_:)
//
// They keep what they are given and verify nothing: what a trust evaluates to, the test says with `StandInTrust`.

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
    fileprivate let data: NSData

    fileprivate init(_ data: NSData) { self.data = data }
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
    fileprivate let policy: SecPolicy
    fileprivate var date: NSDate?
    fileprivate var anchors: [SecCertificate] = []
    fileprivate var anchorsOnly = false
    fileprivate var chain: [SecCertificate]?

    fileprivate init(_ certificates: [SecCertificate], _ policy: SecPolicy) {
        self.certificates = certificates
        self.policy = policy
    }
}

/// What trusts evaluate to.
public enum StandInTrust {
    public struct Question: Sendable {
        public let certificates: [[UInt8]]
        public let host: String
        public let isServer: Bool
        public let date: Date?
        public let anchors: [[UInt8]]
        public let anchorsOnly: Bool
    }

    public enum Answer: Sendable {
        case trusted(chain: [[UInt8]])
        case failed(OSStatus)
    }

    /// For the task that asks.
    @TaskLocal public static var answer: @Sendable (Question) -> Answer = { _ in .failed(errSecNotTrusted) }
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

public func SecTrustSetVerifyDate(_ trust: SecTrust, _ verifyDate: CFDate) -> OSStatus {
    trust.date = verifyDate
    return errSecSuccess
}

public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchorCertificates: CFArray?) -> OSStatus {
    trust.anchors = anchorCertificates?.compactMap { $0 as? SecCertificate } ?? []
    return errSecSuccess
}

public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ anchorCertificatesOnly: Bool) -> OSStatus {
    trust.anchorsOnly = anchorCertificatesOnly
    return errSecSuccess
}

public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    func bytes(_ list: [SecCertificate]) -> [[UInt8]] { list.map { Array(Data(referencing: $0.data)) } }
    let question = StandInTrust.Question(
        certificates: bytes(trust.certificates), host: trust.policy.host, isServer: trust.policy.isServer,
        date: trust.date.map { Date(timeIntervalSinceReferenceDate: $0.timeIntervalSinceReferenceDate) },
        anchors: bytes(trust.anchors), anchorsOnly: trust.anchorsOnly)
    switch StandInTrust.answer(question) {
    case .trusted(let chain):
        trust.chain = chain.map { SecCertificate(NSData(data: Data($0))) }
        return true
    case .failed(let status):
        error?.pointee = NSError(domain: "NSOSStatusErrorDomain", code: Int(status))
        return false
    }
}

public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? { trust.chain.map { NSArray(array: $0) } }

public func CFErrorGetCode(_ error: CFError) -> CFIndex { error.code }
