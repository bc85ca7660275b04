// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import X509

/// A certificate, a signing request, a public key or a private key, in PEM or DER, from which a pin can be made.
public struct KeySource: Sendable, Hashable {
    /// The kind of source.
    public enum Kind: Sendable, Hashable {
        /// An X.509 certificate.
        case certificate
        /// A PKCS #10 signing request.
        case certificateRequest
        /// A SubjectPublicKeyInfo.
        case publicKey
        /// A private key: PKCS #8, SEC 1 or PKCS #1.
        case privateKey
    }

    /// The kind of source.
    public let kind: Kind
    /// The SubjectPublicKeyInfo in DER.
    public let subjectPublicKeyInfo: [UInt8]
    /// The certificate in DER, or `nil` if the source is not a certificate.
    public let certificate: [UInt8]?

    /// The SHA-256 of the SubjectPublicKeyInfo.
    public var keyHash: PinHash { PinHash(sha256Of: subjectPublicKeyInfo) }

    /// The SHA-256 of the certificate, or `nil` if the source is not a certificate.
    public var certificateHash: PinHash? { certificate.map { PinHash(sha256Of: $0) } }

    /// The readable kind of key, such as `P-256` or `RSA 2048`.
    public var keyDescription: String { CertificateFields.keyDescription(subjectPublicKeyInfo) }

    /// Reads a certificate in DER.
    ///
    /// - Throws: ``PinError`` with `malformedDER`.
    public init(certificate der: [UInt8]) throws(PinError) {
        do {
            let fields = try CertificateFields(der)
            self.init(.certificate, fields.subjectPublicKeyInfo, certificate: der)
        } catch { throw PinError(.malformedDER, "not a certificate: \(error)") }
    }

    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// - Throws: ``PinError`` with `malformedDER`.
    public init(publicKey der: [UInt8]) throws(PinError) {
        do {
            self.init(.publicKey, try CertificateFields.keyInfo(only: der))
        } catch { throw PinError(.malformedDER, "not a public key: \(error)") }
    }

    /// Reads a PKCS #10 signing request in DER. Its signature is not verified.
    ///
    /// - Throws: ``PinError`` with `malformedDER`.
    public init(certificateRequest der: [UInt8]) throws(PinError) {
        do {
            self.init(.certificateRequest, try CertificateFields.keyInfo(ofRequest: der))
        } catch { throw PinError(.malformedDER, "not a signing request: \(error)") }
    }

    /// Reads each certificate, signing request and key of a PEM text, in order.
    ///
    /// - Throws: ``PinError`` for a block of another kind, for encrypted keys, for private keys other than RSA, P-256,
    ///   P-384, P-521 and Ed25519, and for text without any block.
    public static func read(pem text: String) throws(PinError) -> [KeySource] {
        var sources: [KeySource] = []
        for document in try PEMDocument.parse(text) {
            switch document.label {
            case "EC PARAMETERS": continue
            case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
                sources.append(try KeySource(certificate: document.der))
            case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST":
                sources.append(try KeySource(certificateRequest: document.der))
            case "PUBLIC KEY": sources.append(try KeySource(publicKey: document.der))
            case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY":
                sources.append(try KeySource(privateKey: document))
            default:
                throw PinError(.malformedPEM, "a PEM block \(document.label) contains no key to pin")
            }
        }
        guard !sources.isEmpty else { throw PinError(.malformedPEM, "the text contains no PEM block") }
        return sources
    }

    /// Reads a certificate, signing request, public key or private key in DER, and detects which one it is.
    ///
    /// - Throws: ``PinError`` with `malformedDER` if it is none of them.
    public init(der: [UInt8]) throws(PinError) {
        if let source = try? KeySource(certificate: der) {
            self = source
        } else if let source = try? KeySource(certificateRequest: der) {
            self = source
        } else if let source = try? KeySource(publicKey: der) {
            self = source
        } else {
            for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"] {
                if let source = try? KeySource(privateKey: PEMDocument(label: label, der: der)) {
                    self = source
                    return
                }
            }
            throw PinError(.malformedDER, "neither a certificate, a signing request nor a key in DER")
        }
    }

    private init(privateKey document: PEMDocument) throws(PinError) {
        do {
            let key = try Certificate.PrivateKey(document).publicKey
            self.init(.privateKey, try key.subjectPublicKeyInfo())
        } catch {
            throw PinError(.unsupportedKey, "not an unencrypted private key for RSA, P-256, P-384, P-521 or Ed25519")
        }
    }

    private init(_ kind: Kind, _ subjectPublicKeyInfo: [UInt8], certificate: [UInt8]? = nil) {
        self.kind = kind
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
        self.certificate = certificate
    }
}

extension Pin {
    /// Creates a pin of a certificate, a signing request or a key.
    ///
    /// - Throws: ``PinError`` with `contradiction` for a certificate pin if the source is not a certificate.
    public init(_ kind: Kind, of source: KeySource, role: Role = .primary, scope: Scope = .any) throws(PinError) {
        guard kind == .certificate else {
            try self.init(kind, source.keyHash, role: role, scope: scope)
            return
        }
        guard let hash = source.certificateHash else {
            throw PinError(.contradiction, "a certificate pin needs a certificate, not a key")
        }
        try self.init(kind, hash, role: role, scope: scope)
    }
}
