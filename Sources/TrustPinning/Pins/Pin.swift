// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A hash that a certificate of the verified chain must match for a connection to be trusted.
public struct Pin: Sendable, Hashable {
    /// The object that is hashed.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The SubjectPublicKeyInfo of a certificate. The pin remains valid for a new certificate with the same key.
        case spki
        /// The complete certificate in DER. The pin is valid for this certificate only.
        case certificate
        /// The SubjectPublicKeyInfo of an authority: any certificate of the chain except the first.
        case ca
    }

    /// The use of the pinned key.
    public enum Role: String, Sendable, Hashable, CaseIterable {
        /// A key that servers currently use.
        case primary
        /// A key in reserve, in case the primary key is lost or replaced. A policy that enforces its pins must have a
        /// backup. A decision in which only backup pins match is reported.
        case backup
    }

    /// The certificates of a chain that a pin may match.
    public enum Scope: String, Sendable, Hashable, CaseIterable {
        /// The server's own certificate, the first one.
        case leaf
        /// The certificates between the first and the last.
        case intermediate
        /// The last certificate of a verified chain of two or more.
        case root
        /// Any certificate of the chain.
        case any
    }

    /// The object that is hashed.
    public let kind: Kind
    /// The SHA-256.
    public let hash: PinHash
    /// The use of the pinned key.
    public let role: Role
    /// The certificates that the pin may match.
    public let scope: Scope

    /// Creates a pin of a hash.
    ///
    /// - Throws: ``PinError`` with `contradiction` for a ca pin with the scope leaf, which could never match.
    public init(_ kind: Kind, _ hash: PinHash, role: Role = .primary, scope: Scope = .any) throws(PinError) {
        guard kind != .ca || scope != .leaf else {
            throw PinError(.contradiction, "a ca pin never matches a leaf: use an spki pin, or another scope")
        }
        self.kind = kind
        self.hash = hash
        self.role = role
        self.scope = scope
    }

    /// Creates a pin of a hash in base64 or hexadecimal digits.
    ///
    /// - Throws: ``PinError``, see ``PinHash/init(_:)``.
    public init(_ kind: Kind, _ hash: String, role: Role = .primary, scope: Scope = .any) throws(PinError) {
        try self.init(kind, try PinHash(hash), role: role, scope: scope)
    }

    /// Whether the pin can match a leaf.
    public var canMatchLeaf: Bool { kind != .ca && (scope == .leaf || scope == .any) }
}

extension Pin {
    /// Explains the mistake if a `ca` pin is the hash of an issuer's certificate; otherwise returns `nil`.
    ///
    /// PinGuard's `ca` pins are hashes of certificates. Such a pin matches nothing here, where a `ca` pin is the hash
    /// of a key.
    /// - Parameter issuers: The hashes of the certificates above the leaf.
    package static func carriedOverHint(
        _ pins: [Pin], issuers: [(keyHash: PinHash, certificateHash: PinHash)]
    ) -> String? {
        for pin in pins where pin.kind == .ca {
            guard let issuer = issuers.first(where: { $0.certificateHash == pin.hash }) else { continue }
            return
                "the ca pin \(pin.hash) is the hash of an issuer's certificate, as PinGuard writes ca pins, and must be "
                + "the hash of its key, \(issuer.keyHash); or set its kind to 'certificate'"
        }
        return nil
    }
}
