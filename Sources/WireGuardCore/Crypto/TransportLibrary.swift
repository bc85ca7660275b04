// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// ChaCha20-Poly1305 for transport messages by a library that the process has loaded, as two C functions.
///
/// Any number of threads may call the functions at the same time. They take the key (32 bytes), the nonce (12 bytes), the
/// source and its length without a tag, the additional data and its length, and the destination.
@safe
package struct TransportLibrary: Sendable {
    /// Seals, and writes 16 bytes more than it reads. Returns `false`, and writes nothing, if the library cannot be used.
    package typealias Seal =
        @Sendable @convention(c) (
            UnsafeRawPointer?, UnsafeRawPointer?, UnsafeRawPointer?, Int, UnsafeRawPointer?, Int,
            UnsafeMutableRawPointer?
        ) -> Bool
    /// Opens the source and the tag after it. Returns 1 if the message is authentic. If not, returns 0 and writes zeros.
    /// Returns -1, and writes nothing, if the library cannot be used.
    package typealias Open =
        @Sendable @convention(c) (
            UnsafeRawPointer?, UnsafeRawPointer?, UnsafeRawPointer?, Int, UnsafeRawPointer?, Int,
            UnsafeMutableRawPointer?
        ) -> CInt

    let seal: Seal
    let open: Open

    package init(seal: @escaping Seal, open: @escaping Open) {
        unsafe self.seal = seal
        unsafe self.open = open
    }

    private static let selected = Mutex<TransportLibrary?>(nil)

    /// The library of sessions that begin from now on, which must give the known answers; `nil` for the implementation that
    /// this package links. Sessions on CryptoKit do not use it.
    package static var current: TransportLibrary? {
        get { selected.withLock { $0 } }
        set { selected.withLock { $0 = newValue } }
    }

    #if canImport(CCryptoBoringSSL)
        /// The name of the implementation that this package links.
        package static let linkedName = "boringssl"
    #else
        /// The name of the implementation that this package links.
        package static let linkedName = "cryptokit"
    #endif
}

// MARK: - The known answers

extension TransportLibrary {
    /// Whether the library gives the tag of RFC 8439, section 2.8.2, and agrees with the linked implementation about
    /// messages of many lengths. It must refuse each of them if the first or the last byte of its tag differs.
    package func givesKnownAnswers() -> Bool {
        let sunscreen = Array(
            ("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
                + "sunscreen would be it.").utf8)
        let key = Bytes32(
            w0: 0x8786_8584_8382_8180, w1: 0x8f8e_8d8c_8b8a_8988, w2: 0x9796_9594_9392_9190, w3: 0x9f9e_9d9c_9b9a_9998)
        let header: [UInt8] = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7]
        let nonce: [UInt8] = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47]
        let tag: [UInt8] = [
            0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91,
        ]
        guard let sealed = agreed(key, nonce, sunscreen, header), sealed.suffix(16).elementsEqual(tag) else {
            return false
        }
        // The lengths around those at which implementations change from one way of working to another.
        let lengths = [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 960, 961, 1023, 1024, 1025, 1424, 4096, 9000]
        return lengths.allSatisfy { length in
            let text = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ length) }
            let counter = (0..<12).map { UInt8(truncatingIfNeeded: $0 &* length) }
            return agreed(key, counter, text, length.isMultiple(of: 2) ? [] : header) != nil
        }
    }

    /// Seals and opens a message in place, and opens it with two other tags.
    /// - Returns: The sealed message, or `nil` if the library and the linked implementation differ about it.
    private func agreed(_ key: Bytes32, _ nonce: [UInt8], _ text: [UInt8], _ header: [UInt8]) -> [UInt8]? {
        let tagByteCount = ChaChaPoly.tagByteCount
        var expected = text + [UInt8](repeating: 0, count: tagByteCount)
        var buffer = expected
        let isGood = unsafe key.withBytes { keyBytes in
            unsafe nonce.withUnsafeBytes { nonce in
                unsafe header.withUnsafeBytes { header in
                    unsafe expected.withUnsafeMutableBytes { expected in
                        unsafe buffer.withUnsafeMutableBytes { buffer -> Bool in
                            guard let nonce = nonce.baseAddress, let place = buffer.baseAddress,
                                let other = expected.baseAddress
                            else { return false }
                            unsafe CryptoBackEnd.seal(
                                key: key, nonce: ChaChaNonce(loadingFrom: nonce),
                                plaintext: UnsafeRawBufferPointer(start: other, count: text.count),
                                authenticating: header, into: other)
                            func opened() -> CInt {
                                unsafe open(
                                    keyBytes.baseAddress, nonce, place, text.count, header.baseAddress, header.count,
                                    place)
                            }
                            guard
                                unsafe seal(
                                    keyBytes.baseAddress, nonce, place, text.count, header.baseAddress, header.count,
                                    place),
                                unsafe buffer.elementsEqual(expected), opened() == 1,
                                unsafe buffer.prefix(text.count).elementsEqual(text)
                            else { return false }
                            return [text.count, buffer.count - 1].allSatisfy { changed in
                                unsafe buffer.copyBytes(from: expected)
                                unsafe buffer[changed] ^= 1
                                return unsafe opened() == 0 && buffer.prefix(text.count).allSatisfy { $0 == 0 }
                            }
                        }
                    }
                }
            }
        }
        return isGood ? expected : nil
    }
}
