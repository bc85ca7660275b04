// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1

/// Conversions of ECDSA signatures on a curve. In DER, a signature is a SEQUENCE of two INTEGERs (RFC 3279 section
/// 2.2.3); the raw form is two numbers of fixed size.
struct ECDSASignatureForm {
    /// The order of the curve's group, big-endian.
    let order: [UInt8]

    static let p256 = ECDSASignatureForm(order: [
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ])

    static let p384 = ECDSASignatureForm(
        order: [UInt8](repeating: 0xff, count: 24) + [
            0xc7, 0x63, 0x4d, 0x81, 0xf4, 0x37, 0x2d, 0xdf, 0x58, 0x1a, 0x0d, 0xb2,
            0x48, 0xb0, 0xa7, 0x7a, 0xec, 0xec, 0x19, 0x6a, 0xcc, 0xc5, 0x29, 0x73,
        ])

    /// Returns the raw form of a signature in DER, or `nil` unless it is exactly one SEQUENCE of two INTEGERs in
    /// shortest form. Both must be above zero and below the order and, if `requiresLowS` is set, the second must be in
    /// the lower half.
    func raw(_ signature: [UInt8], requiresLowS: Bool) -> [UInt8]? {
        let numbers = try? DER.sequence(
            of: ArraySlice<UInt8>.self, identifier: .sequence, rootNode: DER.parse(signature))
        guard let numbers, numbers.count == 2, numbers.allSatisfy({ !$0.isEmpty && $0.count <= order.count }) else {
            return nil
        }
        let padded = numbers.map { [UInt8](repeating: 0, count: order.count - $0.count) + $0 }
        guard padded.allSatisfy({ $0.lexicographicallyPrecedes(order) }), !requiresLowS || isLow(padded[1]) else {
            return nil
        }
        return padded[0] + padded[1]
    }

    /// Whether s is at most half of the order, which is equivalent to s being at most order - s.
    func isLow(_ s: [UInt8]) -> Bool { !negated(s).lexicographicallyPrecedes(s) }

    /// Returns the order minus `number`, which must be less than the order.
    func negated(_ number: [UInt8]) -> [UInt8] {
        var result = order
        var borrow = 0
        for index in order.indices.reversed() {
            let difference = Int(order[index]) - Int(number[index]) - borrow
            borrow = difference < 0 ? 1 : 0
            result[index] = UInt8(truncatingIfNeeded: difference)
        }
        return result
    }

    /// Returns the signature with the lower of the two valid values of s, or `nil` if it is not a signature in DER.
    func lowS(_ signature: [UInt8]) -> [UInt8]? {
        guard let raw = raw(signature, requiresLowS: false) else { return nil }
        let s = Array(raw[order.count...])
        var serializer = DER.Serializer()
        let numbers = [raw[..<order.count], (isLow(s) ? s : negated(s))[...]]
        return (try? serializer.serializeSequenceOf(numbers)).map { serializer.serializedBytes }
    }
}
