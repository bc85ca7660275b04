// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/security/secidentity
// https://developer.apple.com/documentation/security/secidentitycopycertificate(_:_:)
// https://developer.apple.com/documentation/security/secidentitygettypeid()
// https://developer.apple.com/documentation/security/seccertificategettypeid()
// https://developer.apple.com/documentation/security/secpkcs12import(_:_:_:)
// https://developer.apple.com/documentation/security/ksecimporttomemoryonly
// https://developer.apple.com/documentation/corefoundation/cfgettypeid(_:)
//
// An identity has a certificate and no key: what a key does, no stand-in does. Bundles are read with the program
// `openssl` (`OpenSSLBundle`); a wrong passphrase and what is no bundle have the results that the documentation names.

public typealias CFTypeID = UInt

public let errSecAuthFailed: OSStatus = -25293
public let errSecDecode: OSStatus = -26275

private func key(_ text: String) -> CFString { NSString(string: text) }

public var kSecImportExportPassphrase: CFString { key("passphrase") }
public var kSecImportToMemoryOnly: CFString { key("memory-only") }
public var kSecImportItemIdentity: CFString { key("identity") }
public var kSecImportItemCertChain: CFString { key("chain") }

public final class SecIdentity: NSObject {
    let certificate: SecCertificate

    init(_ certificate: SecCertificate) { self.certificate = certificate }
}

public func CFGetTypeID(_ cf: CFTypeRef?) -> CFTypeID {
    switch cf {
    case is SecIdentity: SecIdentityGetTypeID()
    case is SecCertificate: SecCertificateGetTypeID()
    default: 1
    }
}

public func SecCertificateGetTypeID() -> CFTypeID { 42 }

public func SecIdentityGetTypeID() -> CFTypeID { 43 }

public func SecIdentityCopyCertificate(
    _ identityRef: SecIdentity, _ certificateRef: UnsafeMutablePointer<SecCertificate?>
) -> OSStatus {
    certificateRef.pointee = identityRef.certificate
    return errSecSuccess
}

public func SecPKCS12Import(
    _ pkcs12_data: CFData, _ options: CFDictionary, _ items: UnsafeMutablePointer<CFArray?>
) -> OSStatus {
    let passphrase = (options[kSecImportExportPassphrase] as? NSString).map { String(describing: $0) }
    guard let passphrase else { return errSecParam }
    // Only so does nothing get into the keychain of the user on macOS.
    guard options[kSecImportToMemoryOnly] as? Bool == true else { return errSecParam }
    let data = Data(referencing: pkcs12_data)
    guard data.first == 0x30 else { return errSecDecode }
    guard let certificates = OpenSSLBundle.read(data, passphrase, ["-nokeys"], "CERTIFICATE"),
        let keys = OpenSSLBundle.read(data, passphrase, ["-nocerts", "-noenc"], "PRIVATE KEY")
    else { return errSecAuthFailed }
    // A bundle without an identity has items without one.
    let item = NSMutableDictionary()
    let chain = certificates.map { SecCertificate(NSData(data: $0)) }
    if !chain.isEmpty { item[kSecImportItemCertChain] = NSArray(array: chain) }
    if !keys.isEmpty, let own = chain.first { item[kSecImportItemIdentity] = SecIdentity(own) }
    items.pointee = NSArray(object: item)
    return errSecSuccess
}
