// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import NIOSSL
public import TrustPinning

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A client certificate with its private key and the chain above it.
public struct ClientIdentity: ClientIdentityMaterial {
    /// The certificates in DER, the client's own first.
    public let certificates: [[UInt8]]
    /// The validity period of the client's own certificate.
    public let validity: Range<Date>

    let certificateSources: [NIOSSLCertificateSource]
    let privateKeySource: NIOSSLPrivateKeySource

    /// Reads the identity in a PKCS#12 bundle (RFC 7292), as keychains and certificate authorities export it.
    ///
    /// The key must be in a separate bag that is visible before decryption, as common programs write it. Use only
    /// bundles from trusted sources: if the key in a bundle does not belong to the certificate, the TLS library ends
    /// the process.
    /// - Throws: An error if a part is missing, or if the bundle or the passphrase is wrong.
    public init(pkcs12: [UInt8], passphrase: String?) throws(ClientIdentityError) {
        try PKCS12Outline.check(pkcs12)
        let bundle: NIOSSLPKCS12Bundle
        do {
            bundle = try NIOSSLPKCS12Bundle(buffer: pkcs12, passphrase: passphrase.map { Array($0.utf8) })
        } catch {
            throw .unreadableBundle
        }
        try self.init(chain: bundle.certificateChain, key: bundle.privateKey)
    }

    /// Reads the identity in PEM: certificates, the client's own first, and its private key, which may be encrypted.
    /// - Throws: An error if one of the two cannot be read, or if they do not belong together.
    public init(
        certificatePEM: [UInt8], keyPEM: [UInt8], passphrase: String? = nil
    ) throws(ClientIdentityError) {
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(certificatePEM), !chain.isEmpty else {
            throw .unreadableCertificate
        }
        let secret = Array((passphrase ?? "").utf8)
        // Without a callback, the TLS library would ask for a passphrase on the terminal.
        guard let key = try? NIOSSLPrivateKey(bytes: keyPEM, format: .pem, passphraseCallback: { $0(secret) }) else {
            throw .unreadableKey
        }
        try self.init(chain: chain, key: key)
    }

    private init(chain: [NIOSSLCertificate], key: NIOSSLPrivateKey) throws(ClientIdentityError) {
        guard let leaf = chain.first, let certificates = try? chain.map({ try $0.toDERBytes() }) else {
            throw .unreadableCertificate
        }
        let from = Date(timeIntervalSince1970: Double(leaf.notValidBefore))
        let until = Date(timeIntervalSince1970: Double(leaf.notValidAfter))
        guard from < until else { throw .unreadableCertificate }
        validity = from..<until
        self.certificates = certificates
        certificateSources = chain.map { .certificate($0) }
        privateKeySource = .privateKey(key)

        // Create a context, which fails if the key does not belong to the certificate.
        var trial = TLSConfiguration.makeClientConfiguration()
        trial.trustRoots = .certificates([])
        trial.certificateChain = certificateSources
        trial.privateKey = privateKeySource
        guard (try? NIOSSLContext(configuration: trial)) != nil else { throw .keyOfAnotherCertificate }
    }
}

/// The client identities, each bound to the hosts that may receive it.
public typealias ClientIdentities = ClientIdentityStore<ClientIdentity>
