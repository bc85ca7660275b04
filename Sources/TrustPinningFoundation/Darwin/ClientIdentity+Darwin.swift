// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Foundation
    public import Security
    public import TrustPinning

    #if canImport(FoundationNetworking)
        internal import FoundationNetworking
    #endif

    /// A certificate with its key and the chain above it, with which a client says who it is.
    ///
    /// The key stays where the platform keeps it.
    public struct ClientIdentity: ClientIdentityMaterial, @unchecked Sendable {
        // Security's objects do not change, and may be used from any thread.

        /// The certificates in DER, the client's own first.
        public let certificates: [[UInt8]]
        /// The dates between which the client's own certificate is valid.
        public let validity: Range<Date>

        let identity: SecIdentity
        /// What is sent besides the client's own certificate. Roots the server has.
        let intermediates: [SecCertificate]

        /// The identity in a PKCS#12 bundle (RFC 7292), as exported by keychains and certificate authorities. It does not
        /// get into the keychain.
        /// - Throws: an error that says what is missing, or that the bundle or the passphrase is wrong.
        public init(pkcs12: [UInt8], passphrase: String?) throws(ClientIdentityError) {
            let options: NSDictionary = [
                kSecImportExportPassphrase: NSString(string: passphrase ?? ""), kSecImportToMemoryOnly: NSNumber(true),
            ]
            var items: CFArray?
            let status = unsafe SecPKCS12Import(
                NSData(data: Data(pkcs12)) as CFData, options as CFDictionary, &items)
            guard status == errSecSuccess, let list = items as? [NSDictionary] else { throw .unreadableBundle }
            let found = list.compactMap { item in
                (item[kSecImportItemIdentity] as AnyObject?).flatMap(Self.identity).map { ($0, item) }
            }.first
            guard let (identity, item) = found else {
                throw list.contains { $0[kSecImportItemCertChain] != nil } ? .noKey : .noCertificate
            }
            try self.init(identity, chain: item[kSecImportItemCertChain] as? [SecCertificate] ?? [])
        }

        /// The identity that the keychain has under a persistent reference, with certificates above it that are not there.
        /// - Throws: an error that says why there is none; a keychain that is locked is read when it is asked again.
        public init(persistentReference: Data, chain: [[UInt8]] = []) throws(ClientIdentityError) {
            try self.init(kSecValuePersistentRef, persistentReference, chain: chain)
        }

        /// The identity whose private key the keychain has under an application tag (`kSecAttrApplicationTag`), with
        /// certificates above it that are not there. Where several keys have the tag, any of them is taken: give each its own.
        /// - Throws: as ``init(persistentReference:chain:)``.
        public init(keychainTag tag: String, chain: [[UInt8]] = []) throws(ClientIdentityError) {
            try self.init(kSecAttrApplicationTag, Data(tag.utf8), chain: chain)
        }

        /// The one that the keychain finds by an attribute.
        private init(_ attribute: CFString, _ value: Data, chain: [[UInt8]]) throws(ClientIdentityError) {
            let query: NSDictionary = [
                kSecClass: kSecClassIdentity, attribute: NSData(data: value), kSecReturnRef: NSNumber(true),
            ]
            var result: CFTypeRef?
            let status = unsafe SecItemCopyMatching(query as CFDictionary, &result)
            guard status != errSecItemNotFound else { throw .notInKeychain }
            guard status == errSecSuccess else { throw .keychain(status: status) }
            guard let identity = result.flatMap(Self.identity) else { throw .notInKeychain }
            let above = chain.map { SecCertificateCreateWithData(nil, NSData(data: Data($0)) as CFData) }
            guard !above.contains(nil) else { throw .unreadableCertificate }
            try self.init(identity, chain: above.compactMap(\.self))
        }

        /// An identity that the app has from elsewhere.
        /// - Parameter chain: the certificates above it. Its own may be among them.
        /// - Throws: `.unreadableCertificate`.
        public init(_ identity: SecIdentity, chain: [SecCertificate] = []) throws(ClientIdentityError) {
            var certificate: SecCertificate?
            guard unsafe SecIdentityCopyCertificate(identity, &certificate) == errSecSuccess, let certificate else {
                throw .unreadableCertificate
            }
            let own = Self.der(certificate)
            guard let fields = try? CertificateFields(own) else { throw .unreadableCertificate }
            let above = chain.map { ($0, Self.der($0)) }.filter { $0.1 != own }
            let from = Date(timeIntervalSince1970: Double(fields.notBefore))
            let until = Date(timeIntervalSince1970: Double(fields.notAfter))
            guard from < until else { throw .unreadableCertificate }
            validity = from..<until
            certificates = [own] + above.map(\.1)
            intermediates = above.filter { (try? CertificateFields($0.1))?.isSelfIssued == false }.map(\.0)
            self.identity = identity
        }

        /// What a challenge is answered with.
        var credential: URLCredential {
            URLCredential(identity: identity, certificates: intermediates, persistence: .forSession)
        }

        private static func der(_ certificate: SecCertificate) -> [UInt8] {
            Array(Data(referencing: SecCertificateCopyData(certificate) as NSData))
        }

        /// Types of Core Foundation cannot be tested with `as?`, one by one.
        private static func identity(_ object: AnyObject) -> SecIdentity? {
            guard CFGetTypeID(object) == SecIdentityGetTypeID() else { return nil }
            return (NSArray(object: object) as? [SecIdentity])?.first
        }
    }

    /// The client's identities, each bound to the hosts that may see it.
    public typealias ClientIdentities = ClientIdentityStore<ClientIdentity>
#endif
