// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase, NoLeadingUnderscores

public import Crypto
public import Foundation
@_exported import Security  // As Foundation does there.

// For Apple's targets only: the names that swift-certificates takes from swift-crypto's second library, whose Apple side
// needs all of Security. Declarations as in swift-crypto.

public enum _RSA {
    public enum Signing {
        public struct Padding: Sendable {
            public static let insecurePKCS1v1_5 = Padding()
            public static let PSS = Padding()
        }

        public struct RSASignature: Sendable, ContiguousBytes {
            public var rawRepresentation: Data
            public init<D: DataProtocol>(rawRepresentation: D) { self.rawRepresentation = Data(rawRepresentation) }
            public func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
                try rawRepresentation.withUnsafeBytes(body)
            }
        }

        public struct PublicKey: Sendable {
            init() {}
            public init<Bytes: DataProtocol>(derRepresentation: Bytes) throws {}
            public init(pemRepresentation: String) throws {}
            public var pkcs1DERRepresentation: Data { Data() }
            public var derRepresentation: Data { Data() }
            public var pemRepresentation: String { "" }
            public var keySizeInBits: Int { 0 }
            public func isValidSignature<D: Digest>(_ signature: RSASignature, for digest: D, padding: Padding) -> Bool
            {
                false
            }
        }

        public struct PrivateKey: Sendable {
            public init<Bytes: DataProtocol>(derRepresentation: Bytes) throws {}
            public init(pemRepresentation: String) throws {}
            public var publicKey: PublicKey { PublicKey() }
            public var pkcs8PEMRepresentation: String { "" }
            public var derRepresentation: Data { Data() }
            public var pemRepresentation: String { "" }
            public func signature<D: Digest>(for digest: D, padding: Padding) throws -> RSASignature {
                RSASignature(rawRepresentation: Data())
            }
        }
    }
}
