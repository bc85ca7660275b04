// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore
import WireGuardDevice

/// Compares Intel's multi-buffer library with the implementation that the package links. For a length from 0 to 65,535, at
/// any address and at the end of a page, both seal the same bytes. The library opens them, and refuses a changed bit.
///
/// Without the library, the linked implementation is compared with itself.
func fuzzAEAD(_ bytes: [UInt8]) {
    #if canImport(CCryptoBoringSSL)
        var input = ByteReader(bytes)
        let byteCount = input.short()
        let shift = input.choice(of: 64)
        let headerByteCount = input.choice(of: 64)
        let changed = Int(input.word()) % ((byteCount + 16) * 8)
        let key = Bytes32(w0: input.long(), w1: input.long(), w2: input.long(), w3: input.long())
        let counter = input.long()
        let header = input.take(headerByteCount)
        // The rest of the input is repeated up to the length.
        let pattern = input.rest()
        let text = (0..<byteCount).map { pattern.isEmpty ? 0 : pattern[$0 % pattern.count] }
        let linked = BoringSSLTransportCipher(key: key, library: nil)
        let other = BoringSSLTransportCipher(key: key, library: try? TransportAEAD.loadIPsecMB())

        unsafe GuardedBytes.output.lend(byteCount + 16 + shift) { memory in
            guard let place = memory.baseAddress else { finding("no memory") }
            let message = unsafe UnsafeMutableRawBufferPointer(start: place, count: byteCount + 16)
            unsafe header.withUnsafeBytes { header in
                unsafe message.copyBytes(from: text)
                unsafe linked.seal(
                    counter: counter, source: place, byteCount: byteCount, authenticating: header, destination: place)
                let expected = unsafe Array(message)
                unsafe message.copyBytes(from: text)
                unsafe other.seal(
                    counter: counter, source: place, byteCount: byteCount, authenticating: header, destination: place)
                unsafe require(message.elementsEqual(expected), "\(byteCount) bytes are sealed differently")
                func opens() -> Bool {
                    unsafe other.open(
                        counter: counter, source: place, sealedByteCount: byteCount + 16, authenticating: header,
                        destination: place)
                }
                require(opens(), "\(byteCount) sealed bytes are refused")
                unsafe require(message.prefix(byteCount).elementsEqual(text), "\(byteCount) bytes are opened wrongly")
                unsafe message.copyBytes(from: expected)
                unsafe message[changed / 8] ^= 1 << UInt8(changed % 8)
                require(!opens(), "bit \(changed) of \(byteCount) bytes is changed, and the message is accepted")
                unsafe require(message.prefix(byteCount).allSatisfy { $0 == 0 }, "a refused message leaves bytes")
            }
        }
    #endif
}
