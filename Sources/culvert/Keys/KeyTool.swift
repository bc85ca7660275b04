// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem
import WireGuardCore

/// Implements the key commands. Each function returns the exit status.
struct KeyTool {
    var console: Console

    /// The most bytes of standard input that are read; no key needs as many.
    static let inputLimit = 4096

    /// Prints a new private key.
    func generate(json: Bool) -> Int32 {
        warnAboutReaders()
        var generator = SystemRandomNumberGenerator()
        let key = PrivateKey(using: &generator)
        if json {
            let document: JSON = [
                "privateKey": .string(key.exportedBase64), "publicKey": .string(key.publicKey.base64),
            ]
            console.line(document.text)
        } else {
            console.line(key.exportedBase64)
        }
        return ExitStatus.success
    }

    /// Prints a new pre-shared key.
    func preshared(json: Bool) -> Int32 {
        warnAboutReaders()
        var generator = SystemRandomNumberGenerator()
        let key = PresharedKey(using: &generator)
        let document: JSON = ["presharedKey": .string(key.exportedBase64)]
        console.line(json ? document.text : key.exportedBase64)
        return ExitStatus.success
    }

    /// Prints the public key of the private key in `input`, which is `nil` if it could not be read.
    func publicKey(of input: [UInt8]?, json: Bool) -> Int32 {
        guard var input else {
            return fail("standard input cannot be read, or is longer than any key; expected one private key")
        }
        defer { unsafe input.withUnsafeMutableBytes { unsafe wipe($0) } }
        while let last = input.last, KeyTool.isSpace(last) { input.removeLast() }
        guard !input.isEmpty else {
            return fail("standard input is empty; expected a private key: culvert key public < private.key")
        }
        guard input.count == 44 else {
            return fail(
                "a private key has 44 characters of base64, but standard input has \(input.count)"
                    + (input.contains(where: KeyTool.isSpace) ? " with white space among them" : ""))
        }
        guard let key = PrivateKey(base64: String(decoding: input, as: UTF8.self)) else {
            return fail("standard input has 44 characters as a private key does, but they are not base64 of 32 bytes")
        }
        guard !key.isZero else { return fail("the private key is all zeros, which means no key") }
        let document: JSON = ["publicKey": .string(key.publicKey.base64)]
        console.line(json ? document.text : key.publicKey.base64)
        return ExitStatus.success
    }

    private func fail(_ message: String) -> Int32 {
        console.problem("culvert: \(message)")
        return ExitStatus.failure
    }

    private func warnAboutReaders() {
        guard console.outputIsWorldAccessible else { return }
        console.problem(
            "culvert: warning: every user may read the file with the key; run 'chmod 600' on it, and use 'umask 077' next time"
        )
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }
}
