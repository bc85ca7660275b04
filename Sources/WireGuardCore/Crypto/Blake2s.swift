// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// BLAKE2s (RFC 7693), unkeyed or keyed, with incremental input. The whole state is stored inline, without heap memory.
///
/// The owner must wipe a value that has processed secret input, with ``wipe()``.
package struct Blake2s {
    private var state: State
    // The last block. It is processed only when more input, or the end, shows whether it is the final one.
    private var block: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
    private var filled = 0
    private let digestByteCount: Int

    /// The number of bytes that one compression processes.
    package static let blockByteCount = 64

    /// An unkeyed hash with a digest of 1 to 32 bytes.
    package init(digestByteCount: Int = 32) {
        precondition((1...32).contains(digestByteCount), "BLAKE2s digests must have 1 to 32 bytes")
        self.digestByteCount = digestByteCount
        state = State(digestByteCount: UInt32(digestByteCount), keyByteCount: 0)
    }

    /// A keyed hash with a digest of 1 to 32 bytes, under a key of 1 to 32 bytes.
    package init(digestByteCount: Int, key: UnsafeRawBufferPointer) {
        precondition((1...32).contains(digestByteCount), "BLAKE2s digests must have 1 to 32 bytes")
        precondition((1...32).contains(key.count), "BLAKE2s keys must have 1 to 32 bytes")
        self.digestByteCount = digestByteCount
        state = State(digestByteCount: UInt32(digestByteCount), keyByteCount: UInt32(key.count))
        unsafe withUnsafeMutableBytes(of: &block) { unsafe $0.copyMemory(from: key) }
        filled = Blake2s.blockByteCount
    }

    /// Adds bytes to the message.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        let size = Blake2s.blockByteCount
        var offset = 0
        if bytes.count > size &- filled {
            if filled > 0 {
                offset = size &- filled
                unsafe append(UnsafeRawBufferPointer(start: start, count: offset))
                unsafe state.compress(&block, byteCount: UInt64(size), isLast: false)
                filled = 0
            }
            while bytes.count &- offset > size {
                unsafe state.compress(start + offset, byteCount: UInt64(size), isLast: false)
                offset &+= size
            }
        }
        unsafe append(UnsafeRawBufferPointer(start: start + offset, count: bytes.count &- offset))
    }

    /// Adds 32 bytes to the message.
    package mutating func update(_ bytes: Bytes32) {
        unsafe bytes.withBytes { unsafe update($0) }
    }

    /// Adds one byte to the message.
    package mutating func update(byte: UInt8) {
        unsafe withUnsafeBytes(of: byte) { unsafe update($0) }
    }

    private mutating func append(_ bytes: UnsafeRawBufferPointer) {
        let start = filled
        unsafe withUnsafeMutableBytes(of: &block) {
            unsafe UnsafeMutableRawBufferPointer(rebasing: $0[start...]).copyMemory(from: bytes)
        }
        filled &+= bytes.count
    }

    private mutating func finish() {
        let end = filled
        unsafe withUnsafeMutableBytes(of: &block) { raw in
            for index in end..<Blake2s.blockByteCount { unsafe raw[index] = 0 }
        }
        unsafe state.compress(&block, byteCount: UInt64(end), isLast: true)
    }

    /// Ends the message and writes the digest to `out`, which must have the size of the digest. Call it once per value.
    package mutating func finalize(into out: UnsafeMutableRawBufferPointer) {
        precondition(out.count == digestByteCount, "the buffer must have the digest's size")
        finish()
        let count = digestByteCount
        unsafe state.digest.withBytes { digest in
            unsafe out.copyMemory(from: UnsafeRawBufferPointer(rebasing: digest[..<count]))
        }
    }

    /// Ends the message and returns the 32-byte digest. Call it once per value, which must have a 32-byte digest.
    package mutating func finalize32() -> Bytes32 {
        precondition(digestByteCount == 32, "the digest has another size")
        finish()
        return state.digest
    }

    /// Ends the message and returns the 16-byte digest. Call it once per value, which must have a 16-byte digest.
    package mutating func finalize16() -> Mac16 {
        precondition(digestByteCount == 16, "the digest has another size")
        finish()
        let digest = state.digest
        return Mac16(w0: digest.w0, w1: digest.w1)
    }

    /// Overwrites the whole value with zeros, in a way that the optimiser does not remove. The value must not be used
    /// afterwards.
    package mutating func wipe() {
        unsafe withUnsafeMutableBytes(of: &state) { unsafe WireGuardCore.wipe($0) }
        unsafe withUnsafeMutableBytes(of: &block) { unsafe WireGuardCore.wipe($0) }
        filled = 0
    }
}

// MARK: - One-shots

extension Blake2s {
    /// HASH(a).
    package static func hash(_ a: UnsafeRawBufferPointer) -> Bytes32 {
        var hash = Blake2s()
        unsafe hash.update(a)
        let digest = hash.finalize32()
        hash.wipe()
        return digest
    }

    /// HASH(a ‖ b), the step that mixes handshake data into the running hash.
    package static func hash(_ a: Bytes32, _ b: UnsafeRawBufferPointer) -> Bytes32 {
        var hash = Blake2s()
        hash.update(a)
        unsafe hash.update(b)
        let digest = hash.finalize32()
        hash.wipe()
        return digest
    }

    /// HASH(a ‖ b).
    package static func hash(_ a: Bytes32, _ b: Bytes32) -> Bytes32 {
        unsafe b.withBytes { unsafe hash(a, $0) }
    }

    /// MAC(key, data) of the WireGuard paper, section 5.4: BLAKE2s keyed with 32 bytes, with a 16-byte digest.
    package static func mac16(key: Bytes32, _ data: UnsafeRawBufferPointer) -> Mac16 {
        unsafe key.withBytes { unsafe mac16(keyBytes: $0, data) }
    }

    /// MAC(key, data) of the WireGuard paper, section 5.4, with a 16-byte key. Used for mac2, whose key is a cookie.
    package static func mac16(key: Mac16, _ data: UnsafeRawBufferPointer) -> Mac16 {
        unsafe key.withBytes { unsafe mac16(keyBytes: $0, data) }
    }

    private static func mac16(keyBytes: UnsafeRawBufferPointer, _ data: UnsafeRawBufferPointer) -> Mac16 {
        var hash = unsafe Blake2s(digestByteCount: 16, key: keyBytes)
        unsafe hash.update(data)
        let digest = hash.finalize16()
        hash.wipe()
        return digest
    }
}

// The state of a keyed hash is as secret as its key.
extension Blake2s: CustomStringConvertible, CustomReflectable {
    package var description: String { "(BLAKE2s state)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
