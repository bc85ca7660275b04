// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftASN1
import Testing
import TrustPinningTesting

@testable import TrustPinning

/// The kinds of bad signatures of the Wycheproof project's ECDSA, EdDSA and HMAC vectors, made for envelopes.
@Suite("Bad signatures of policies")
struct BadSignatureTests {
    private func isValid(_ envelope: PolicyEnvelope, _ signature: [UInt8], requiresLowS: Bool = false) throws -> Bool {
        let verifier = try Publisher.verifier(requiresLowS: requiresLowS)
        let changed = try envelope.changed(signature: signature)
        do {
            _ = try verifier.verify(changed, at: TestDate.today.date)
            return true
        } catch {
            #expect(error.code == .badSignature)
            return false
        }
    }

    private static let curves: [(PolicyEnvelope.Algorithm, [UInt8])] = [
        (.ecdsaP256, ECDSASignatureForm.p256.order), (.ecdsaP384, ECDSASignatureForm.p384.order),
    ]

    /// Returns r and s of a signature in DER.
    private func numbers(_ signature: [UInt8]) throws -> (r: [UInt8], s: [UInt8]) {
        var numbers = try DER.parse(signature).elements()
        func content() throws -> [UInt8] {
            guard case .primitive(let octets) = try numbers.requireNext().content else { throw DERError("no number") }
            return Array(octets)
        }
        return (try content(), try content())
    }

    private func integer(_ content: [UInt8]) -> [UInt8] { DERWriter.element(2, content) }

    @Test("ECDSA signatures in other encodings than DER are refused", arguments: [0, 1])
    func encodings(index: Int) throws {
        let (algorithm, order) = Self.curves[index]
        let envelope = try Publisher.envelope(Publisher.policies("one"), algorithm)
        let (r, s) = try numbers(envelope.signature)
        let body = integer(r) + integer(s)
        let rebuilt = DERWriter.sequence(body)
        #expect(rebuilt == envelope.signature)
        #expect(try isValid(envelope, rebuilt))
        let long = [0x30, 0x81, UInt8(body.count)] + body
        let padded = { (number: [UInt8]) in
            [UInt8](repeating: 0, count: order.count - min(order.count, number.count)) + number
        }
        let bad: [(String, [UInt8])] = [
            ("empty", []), ("empty sequence", [0x30, 0]), ("long form of length", long),
            ("longer form of length", [0x30, 0x82, 0, UInt8(body.count)] + body),
            ("indefinite length", [0x30, 0x80] + body + [0, 0]), ("wrong tag", [0x31] + rebuilt.dropFirst()),
            ("constructed context tag", [0xa0] + rebuilt.dropFirst()), ("byte after the end", rebuilt + [0]),
            ("NULL after the end", rebuilt + [5, 0]), ("NULL inside", DERWriter.sequence(body + [5, 0])),
            ("NULL in front", DERWriter.sequence([5, 0] + body)),
            ("third integer", DERWriter.sequence(body + integer([1]))),
            ("one integer", DERWriter.sequence(integer(r))),
            ("three zeros in front of r", DERWriter.sequence(integer([0, 0, 0] + r) + integer(s))),
            ("zero in front of s", DERWriter.sequence(integer(r) + integer([0] + s))),
            ("long length of r", DERWriter.sequence([2, 0x81, UInt8(r.count)] + r + integer(s))),
            ("octet string for r", DERWriter.sequence(DERWriter.octetString(r) + integer(s))),
            ("bit string for s", DERWriter.sequence(integer(r) + DERWriter.bitString(s))),
            ("swapped", DERWriter.sequence(integer(s) + integer(r))),
            ("nested", DERWriter.sequence(DERWriter.sequence(body))),
            ("raw r and s", padded(Array(r.drop { $0 == 0 })) + padded(Array(s.drop { $0 == 0 }))),
            ("PEM", Array(PEMWriter.pem("SIGNATURE", rebuilt).utf8)), ("twice", rebuilt + rebuilt),
        ]
        for (name, signature) in bad { #expect(try !isValid(envelope, signature), "\(name)") }
        for length in 0..<rebuilt.count { #expect(try !isValid(envelope, Array(rebuilt[..<length])), "\(length)") }
    }

    @Test("ECDSA signatures with special numbers are refused", arguments: [0, 1])
    func numbers(index: Int) throws {
        let (algorithm, order) = Self.curves[index]
        let form = ECDSASignatureForm(order: order)
        let envelope = try Publisher.envelope(Publisher.policies("one"), algorithm)
        let (r, s) = try numbers(envelope.signature)
        let one = [UInt8](repeating: 0, count: order.count - 1) + [1]
        let below = form.negated(one)
        var above = order
        above[above.count - 1] += 1
        let special: [[UInt8]] = [
            [], [0], [1], [2], [0xff], [0x80], [0] + order, [0] + below, [0] + above, order,
            [0] + [UInt8](repeating: 0xff, count: order.count), [1] + [UInt8](repeating: 0, count: order.count * 2),
        ]
        for first in special {
            for second in special {
                #expect(try !isValid(envelope, DERWriter.sequence(integer(first) + integer(second))))
            }
            #expect(try !isValid(envelope, DERWriter.sequence(integer(first) + integer(s))))
            #expect(try !isValid(envelope, DERWriter.sequence(integer(r) + integer(first))))
        }
        // r + n and s + n are equal to r and s modulo n, so a verifier must check the range.
        func plusOrder(_ number: [UInt8]) -> [UInt8] {
            var sum = [UInt8](repeating: 0, count: order.count + 1)
            var carry = 0
            let padded = [UInt8](repeating: 0, count: order.count + 1 - number.count) + number
            for index in sum.indices.reversed() {
                let total = Int(padded[index]) + (index == 0 ? 0 : Int(order[index - 1])) + carry
                sum[index] = UInt8(truncatingIfNeeded: total)
                carry = total >> 8
            }
            return sum.first == 0 && sum[1] < 0x80 ? Array(sum.dropFirst()) : sum
        }
        #expect(try !isValid(envelope, DERWriter.sequence(integer(plusOrder(r)) + integer(s))))
        #expect(try !isValid(envelope, DERWriter.sequence(integer(r) + integer(plusOrder(s)))))
    }

    @Test("The other form of an ECDSA signature is valid unless the lower one is required", arguments: [0, 1])
    func highS(index: Int) throws {
        let (algorithm, order) = Self.curves[index]
        let form = ECDSASignatureForm(order: order)
        for round in 0..<8 {
            let envelope = try Publisher.envelope(Publisher.policies("\(round)"), algorithm)
            let (r, s) = try numbers(envelope.signature)
            let padded = [UInt8](repeating: 0, count: order.count - min(s.count, order.count)) + s.suffix(order.count)
            #expect(form.isLow(padded))
            let high = form.negated(padded)
            let other = DERWriter.sequence(integer(r) + DERWriter.integer(magnitude: high))
            #expect(try isValid(envelope, envelope.signature, requiresLowS: true))
            #expect(try isValid(envelope, other))
            #expect(try !isValid(envelope, other, requiresLowS: true))
        }
    }

    @Test("An ECDSA signature with another key or another hash is refused")
    func otherKeys() throws {
        for (algorithm, _) in Self.curves {
            let envelope = try Publisher.envelope(Publisher.policies("one"), algorithm)
            let other = try Publisher.key(algorithm, "somebody else").sign(envelope.signedBytes)
            #expect(try !isValid(envelope, other))
            let prefix = try Publisher.key(algorithm).sign(envelope.payload)
            #expect(try !isValid(envelope, prefix))
        }
    }

    @Test("Ed25519 signatures of a wrong length, with S not reduced, or with other points are refused")
    func ed25519() throws {
        let envelope = try Publisher.envelope(Publisher.policies("one"), .ed25519)
        let good = envelope.signature
        #expect(good.count == 64)
        for length in 0..<64 { #expect(try !isValid(envelope, Array(good[..<length]))) }
        #expect(try !isValid(envelope, good + [0]))
        #expect(try !isValid(envelope, good + good))
        // S + L, with the order of the group L, little-endian.
        let order: [UInt8] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0,
            0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0x10,
        ]
        var sum = good
        var carry = 0
        for index in 0..<32 {
            let total = Int(good[32 + index]) + Int(order[index]) + carry
            sum[32 + index] = UInt8(truncatingIfNeeded: total)
            carry = total >> 8
        }
        #expect(try !isValid(envelope, sum))
        #expect(try !isValid(envelope, [UInt8](repeating: 0, count: 64)))
        let identity: [UInt8] = [1] + [UInt8](repeating: 0, count: 31)
        #expect(try !isValid(envelope, identity + good[32...]))
        #expect(try !isValid(envelope, identity + [UInt8](repeating: 0, count: 32)))
        #expect(try !isValid(envelope, Array(good[32...] + good[..<32])))
        #expect(try !isValid(envelope, [UInt8](repeating: 0xff, count: 64)))
    }

    @Test("HMAC codes that are truncated, extended, empty or made with another secret are refused")
    func hmac() throws {
        let envelope = try Publisher.envelope(Publisher.policies("one"), .hmacSHA256)
        let good = envelope.signature
        #expect(good.count == 32)
        for length in 0..<32 { #expect(try !isValid(envelope, Array(good[..<length]))) }
        #expect(try !isValid(envelope, good + [0]))
        #expect(try !isValid(envelope, [UInt8](repeating: 0, count: 32)))
        let other = try PolicySigningKey(hmacSecret: [UInt8](1...32)).sign(envelope.signedBytes)
        #expect(try !isValid(envelope, other))
        let extended = try PolicySigningKey(hmacSecret: Publisher.secret + [0]).sign(envelope.signedBytes)
        // HMAC pads keys with zeros, so this is the same key.
        #expect(extended == good)
    }
}
