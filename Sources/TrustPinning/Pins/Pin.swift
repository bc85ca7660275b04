// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What a certificate of the verified chain has to be, for a connection to be trusted.
public struct Pin: Sendable, Hashable {
    /// What the hash is of.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The SubjectPublicKeyInfo of a certificate. It survives a new certificate for the same key.
        case spki
        /// The whole certificate in DER. It ends with the certificate.
        case certificate
        /// The SubjectPublicKeyInfo of an authority: of any certificate of the chain but the first one.
        case ca
    }

    /// Whether the pin is of a key that is in use.
    public enum Role: String, Sendable, Hashable, CaseIterable {
        /// A key that servers use now.
        case primary
        /// A key that is kept for the day on which the primary one is lost or replaced. A policy that enforces its pins
        /// has one, or it could not be built; a match with nothing but backups is reported.
        case backup
    }

    /// The certificates of a chain that a pin may match.
    public enum Scope: String, Sendable, Hashable, CaseIterable {
        /// The server's own: the first one.
        case leaf
        /// Those between the first and the last.
        case intermediate
        /// The last one of two or more, with which the verified chain ends.
        case root
        /// Each of them.
        case any
    }

    /// What the hash is of.
    public let kind: Kind
    /// The SHA-256.
    public let hash: PinHash
    /// Whether the pin is of a key in use.
    public let role: Role
    /// The certificates that may match.
    public let scope: Scope

    /// Makes a pin of a hash.
    ///
    /// - Throws: ``PinError`` with `contradiction` for a ca pin of the scope leaf, which would never match.
    public init(_ kind: Kind, _ hash: PinHash, role: Role = .primary, scope: Scope = .any) throws(PinError) {
        guard kind != .ca || scope != .leaf else {
            throw PinError(.contradiction, "a ca pin never matches a leaf: use an spki pin, or another scope")
        }
        self.kind = kind
        self.hash = hash
        self.role = role
        self.scope = scope
    }

    /// Makes a pin of a hash in base64 or hexadecimal digits.
    ///
    /// - Throws: ``PinError``, see ``PinHash/init(_:)``.
    public init(_ kind: Kind, _ hash: String, role: Role = .primary, scope: Scope = .any) throws(PinError) {
        try self.init(kind, try PinHash(hash), role: role, scope: scope)
    }

    /// Whether the pin can match a leaf at all.
    public var canMatchLeaf: Bool { kind != .ca && (scope == .leaf || scope == .any) }
}
