// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

public import Crypto
public import Foundation

// For Apple's targets only: declarations as in swift-crypto's second library.

public enum KDF: Sendable {
    public enum Scrypt: Sendable {
        public static func deriveKey<Passphrase: DataProtocol, Salt: DataProtocol>(
            from password: Passphrase, salt: Salt, outputByteCount: Int, rounds: Int, blockSize: Int, parallelism: Int,
            maxMemory: Int? = nil
        ) throws -> SymmetricKey { SymmetricKey(size: .bits256) }
    }
}
