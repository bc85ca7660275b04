// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// The names of keys that swift-certificates uses on Apple's platforms; our code uses none, and there are no keys here. Stand-ins with
// the signatures of
// https://developer.apple.com/documentation/security/seckey
// https://developer.apple.com/documentation/security/seckeyalgorithm
// https://developer.apple.com/documentation/security/seckeycopyexternalrepresentation(_:_:)

#if canImport(Darwin)
    public final class SecKey: NSObject, @unchecked Sendable {}

    public struct SecKeyAlgorithm: Hashable, Sendable {
        let name: String
        public static let rsaSignatureMessagePKCS1v15SHA1 = SecKeyAlgorithm(name: "RSA-SHA1")
        public static let rsaSignatureMessagePKCS1v15SHA256 = SecKeyAlgorithm(name: "RSA-SHA256")
        public static let rsaSignatureMessagePKCS1v15SHA384 = SecKeyAlgorithm(name: "RSA-SHA384")
        public static let rsaSignatureMessagePKCS1v15SHA512 = SecKeyAlgorithm(name: "RSA-SHA512")
        public static let ecdsaSignatureMessageX962SHA256 = SecKeyAlgorithm(name: "ECDSA-SHA256")
        public static let ecdsaSignatureMessageX962SHA384 = SecKeyAlgorithm(name: "ECDSA-SHA384")
        public static let ecdsaSignatureMessageX962SHA512 = SecKeyAlgorithm(name: "ECDSA-SHA512")
    }

    public func SecKeyCopyExternalRepresentation(
        _ key: SecKey, _ error: UnsafeMutablePointer<Unmanaged<CFError>?>?
    ) -> CFData? { nil }
#endif
