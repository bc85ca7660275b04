// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// For Apple's targets only, compiled as a part of swift-crypto's sources, which are CryptoKit's interface but for
// https://developer.apple.com/documentation/cryptokit/secureenclave

public enum SecureEnclave {
    public enum P256 {
        public enum Signing {
            public struct PrivateKey: Sendable {
                public var publicKey: CryptoKit.P256.Signing.PublicKey { fatalError("runs nowhere") }
                public var dataRepresentation: Data { Data() }

                public func signature<D: Digest>(for digest: D) throws -> CryptoKit.P256.Signing.ECDSASignature {
                    throw CryptoKitError.incorrectKeySize
                }

                public func signature<D: DataProtocol>(for data: D) throws -> CryptoKit.P256.Signing.ECDSASignature {
                    throw CryptoKitError.incorrectKeySize
                }
            }
        }
    }
}
