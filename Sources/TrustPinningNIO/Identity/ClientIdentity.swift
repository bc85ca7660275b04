// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import NIOSSL
public import TrustPinning

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A certificate with its key and the chain above it, with which a client says who it is.
public struct ClientIdentity: ClientIdentityMaterial {
    /// The certificates in DER, the client's own first.
    public let certificates: [[UInt8]]
    /// The dates between which the client's own certificate is valid.
    public let validity: Range<Date>

    let certificateSources: [NIOSSLCertificateSource]
    let privateKeySource: NIOSSLPrivateKeySource

    /// The identity in a PKCS#12 bundle (RFC 7292), as exported by keychains and certificate authorities.
    ///
    /// The key must lie in the bundle as it does in those that usual programs write: in a bag of its own that can be seen
    /// before decryption. The bundle must be from a source that is trusted not to pair a key with somebody else's
    /// certificate, since the TLS library ends the process on such a bundle.
    /// - Throws: an error that says what is missing, or that the bundle or the passphrase is wrong.
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

    /// The identity in PEM: certificates, the client's own first, and its private key, which may be encrypted.
    /// - Throws: an error that says which of the two cannot be read, or that they do not belong together.
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

        // A context compares the key with the certificate when it takes both.
        var trial = TLSConfiguration.makeClientConfiguration()
        trial.trustRoots = .certificates([])
        trial.certificateChain = certificateSources
        trial.privateKey = privateKeySource
        guard (try? NIOSSLContext(configuration: trial)) != nil else { throw .keyOfAnotherCertificate }
    }
}

/// The client's identities, each bound to the hosts that may see it.
public typealias ClientIdentities = ClientIdentityStore<ClientIdentity>
