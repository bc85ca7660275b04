// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of loading a client identity.
public enum ClientIdentityError: Error, Equatable, CustomStringConvertible {
    /// The bundle is not PKCS#12, or the passphrase is wrong.
    case unreadableBundle
    /// The bundle contains no private key.
    case noKey
    /// The bundle contains no certificate.
    case noCertificate
    /// The certificate cannot be read.
    case unreadableCertificate
    /// The private key cannot be read, or the passphrase is wrong.
    case unreadableKey
    /// The key does not belong to the first certificate.
    case keyOfAnotherCertificate
    /// The keychain has no identity for this reference or tag.
    case notInKeychain
    /// The keychain refused access with this `OSStatus`. It may be locked.
    case keychain(status: Int32)

    /// The error in one line.
    public var description: String {
        switch self {
        case .unreadableBundle: "the bundle is not PKCS#12, or the passphrase is wrong"
        case .noKey: "the PKCS#12 bundle contains no private key"
        case .noCertificate: "the PKCS#12 bundle contains no certificate"
        case .unreadableCertificate: "the client certificate cannot be read; PEM is expected, the client's own first"
        case .unreadableKey: "the private key cannot be read; PEM is expected, and the passphrase if it is encrypted"
        case .keyOfAnotherCertificate: "the private key does not belong to the first certificate"
        case .notInKeychain: "the keychain contains no identity for this reference or tag"
        case .keychain(let status): "the keychain refused access to the identity: status \(status)"
        }
    }
}
