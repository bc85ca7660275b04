// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    public import Foundation
    public import Security
    public import TrustPinning

    #if canImport(FoundationNetworking)
        internal import FoundationNetworking
    #endif

    /// A client certificate with its private key and the chain above it.
    ///
    /// The platform stores the key.
    public struct ClientIdentity: ClientIdentityMaterial, @unchecked Sendable {
        // Unchecked: the objects of the Security framework are immutable, and may be used from any thread.

        /// The certificates in DER, the client's own first.
        public let certificates: [[UInt8]]
        /// The validity period of the client's own certificate.
        public let validity: Range<Date>

        let identity: SecIdentity
        /// The intermediates that are sent after the client's own certificate. The server has the roots.
        let intermediates: [SecCertificate]

        /// Reads the identity in a PKCS#12 bundle (RFC 7292), as keychains and certificate authorities export it. It is
        /// not added to the keychain.
        /// - Throws: An error if a part is missing, or if the bundle or the passphrase is wrong.
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

        /// Loads a keychain identity by its persistent reference, and adds certificates above it that the keychain does
        /// not return.
        /// - Throws: An error if the identity cannot be loaded. If the keychain is locked, a later call may succeed.
        public init(persistentReference: Data, chain: [[UInt8]] = []) throws(ClientIdentityError) {
            try self.init(kSecValuePersistentRef, persistentReference, chain: chain)
        }

        /// Loads the keychain identity whose private key has an application tag (`kSecAttrApplicationTag`), and adds
        /// certificates above it. If several keys have the tag, any of them is used, so use a unique tag for each key.
        /// - Throws: Like ``init(persistentReference:chain:)``.
        public init(keychainTag tag: String, chain: [[UInt8]] = []) throws(ClientIdentityError) {
            try self.init(kSecAttrApplicationTag, Data(tag.utf8), chain: chain)
        }

        /// Loads the keychain identity with an attribute.
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

        /// Wraps an identity that the app has loaded.
        /// - Parameter chain: The certificates above it. It may include its own certificate.
        /// - Throws: `.unreadableCertificate` if its certificate cannot be read.
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

        /// The credential for a challenge.
        var credential: URLCredential {
            URLCredential(identity: identity, certificates: intermediates, persistence: .forSession)
        }

        private static func der(_ certificate: SecCertificate) -> [UInt8] {
            Array(Data(referencing: SecCertificateCopyData(certificate) as NSData))
        }

        /// Casts an object after comparing its type ID, because `as?` cannot test an object for a Core Foundation type.
        private static func identity(_ object: AnyObject) -> SecIdentity? {
            guard CFGetTypeID(object) == SecIdentityGetTypeID() else { return nil }
            return (NSArray(object: object) as? [SecIdentity])?.first
        }
    }

    /// The client identities, each bound to the hosts that may receive it.
    public typealias ClientIdentities = ClientIdentityStore<ClientIdentity>
#endif
