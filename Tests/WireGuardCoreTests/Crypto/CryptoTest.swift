// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

@testable import WireGuardCore

/// Bytes in and bytes out of the crypto layer, so that tests hold values and no pointers.
enum CryptoTest {
    /// The bytes that hexadecimal digits stand for; white space between them is left out.
    static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.compactMap(\.hexDigitValue)
        precondition(digits.count % 2 == 0, "a vector has an odd number of digits")
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    /// 32 bytes; fewer are filled up with zeros.
    static func bytes32(_ hex: String) -> Bytes32 { bytes32(bytes(hex)) }

    static func bytes32(_ bytes: [UInt8]) -> Bytes32 {
        unsafe Bytes32 { unsafe $0.copyBytes(from: bytes) }
    }

    static func bytes(_ value: Bytes32) -> [UInt8] { unsafe value.withBytes { unsafe Array($0) } }
    static func bytes(_ value: Mac16) -> [UInt8] { unsafe value.withBytes { unsafe Array($0) } }
    static func hex(_ value: Bytes32) -> String { hex(bytes(value)) }
    static func hex(_ value: Mac16) -> String { hex(bytes(value)) }

    /// 0, 1, 2 and so on, modulo 256.
    static func counting(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0) } }

    /// The length of the longest run of `byte`.
    static func longestRun(of byte: UInt8, in bytes: [UInt8]) -> Int {
        bytes.reduce(into: (longest: 0, current: 0)) { runs, next in
            runs.current = next == byte ? runs.current + 1 : 0
            runs.longest = max(runs.longest, runs.current)
        }.longest
    }

    /// Text of RFC 8439 section 2.8.2 and of draft-irtf-cfrg-xchacha-03 appendix A.3.1.
    static let sunscreen = Array(
        ("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
            + "sunscreen would be it.").utf8)

    /// SplitMix64: the same numbers on every run.
    struct Generator: RandomNumberGenerator {
        private var state: UInt64

        init(seed: UInt64) { state = seed }

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            return mixed ^ mixed >> 31
        }

        mutating func bytes(_ count: Int) -> [UInt8] {
            var result: [UInt8] = []
            result.reserveCapacity(count + 7)
            while result.count < count {
                let word = next()
                for shift in stride(from: 0, to: 64, by: 8) { result.append(UInt8(truncatingIfNeeded: word >> shift)) }
            }
            result.removeLast(result.count - count)
            return result
        }

        /// The bytes that a generator with this state gives first.
        func firstBytes(_ count: Int) -> [UInt8] {
            var copy = self
            return copy.bytes(count)
        }

        mutating func bytes32() -> Bytes32 { Bytes32(w0: next(), w1: next(), w2: next(), w3: next()) }
    }
}

/// The back ends that this machine has; each runs the same vectors.
enum BackEnd: String, CaseIterable {
    case swiftCrypto
    #if canImport(CCryptoBoringSSL)
        case boringSSL
        /// BoringSSL's cipher with Intel's multi-buffer library in its place.
        case ipsecMB
    #endif

    static let allCases: [BackEnd] = {
        #if canImport(CCryptoBoringSSL)
            IPsecMBBackEnd.library == nil ? [.swiftCrypto, .boringSSL] : [.swiftCrypto, .boringSSL, .ipsecMB]
        #else
            [.swiftCrypto]
        #endif
    }()

    var primitives: any CryptoPrimitives.Type {
        switch self {
        case .swiftCrypto: SwiftCryptoBackEnd.self
        #if canImport(CCryptoBoringSSL)
            case .boringSSL: BoringSSLBackEnd.self
            case .ipsecMB: IPsecMBBackEnd.self
        #endif
        }
    }

    func cipher(key: Bytes32) -> any TransportSealing {
        switch self {
        case .swiftCrypto: SwiftCryptoTransportCipher(key: key)
        #if canImport(CCryptoBoringSSL)
            case .boringSSL: BoringSSLTransportCipher(key: key, library: nil)
            case .ipsecMB: BoringSSLTransportCipher(key: key, library: IPsecMBBackEnd.library)
        #endif
        }
    }

    func publicKey(for secret: Bytes32) -> Bytes32 { primitives.publicKey(for: secret) }

    func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32? {
        primitives.sharedSecret(secret: secret, publicKey: publicKey)
    }

    func seal(key: [UInt8], nonce: [UInt8], _ plaintext: [UInt8], authenticating: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: plaintext.count + 16)
        unsafe out.withUnsafeMutableBytes { out in
            guard let start = out.baseAddress else { return }
            unsafe plaintext.withUnsafeBytes { plaintext in
                unsafe authenticating.withUnsafeBytes { authenticating in
                    unsafe primitives.seal(
                        key: CryptoTest.bytes32(key), nonce: ChaChaNonce(bytes: nonce), plaintext: plaintext,
                        authenticating: authenticating, into: start)
                }
            }
        }
        return out
    }

    /// The plaintext; `nil` if the message is refused.
    func open(key: [UInt8], nonce: [UInt8], _ sealed: [UInt8], authenticating: [UInt8]) -> [UInt8]? {
        var out = [UInt8](repeating: 0xee, count: max(sealed.count, 16))
        let isAuthentic = unsafe out.withUnsafeMutableBytes { out in
            guard let start = out.baseAddress else { return false }
            return unsafe sealed.withUnsafeBytes { sealed in
                unsafe authenticating.withUnsafeBytes { authenticating in
                    unsafe primitives.open(
                        key: CryptoTest.bytes32(key), nonce: ChaChaNonce(bytes: nonce), sealed: sealed,
                        authenticating: authenticating, into: start)
                }
            }
        }
        return isAuthentic ? Array(out.prefix(sealed.count - 16)) : nil
    }
}

extension ChaChaNonce {
    init(bytes: [UInt8]) {
        let twelve = bytes + [UInt8](repeating: 0, count: max(0, 12 - bytes.count))
        let words = stride(from: 0, to: 12, by: 4).map { start in
            twelve[start..<start + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        let inPlace = (words[0].littleEndian, words[1].littleEndian, words[2].littleEndian)
        unsafe self = withUnsafePointer(to: inPlace) { unsafe ChaChaNonce(loadingFrom: $0) }
    }

    var bytes: [UInt8] {
        unsafe withBytes { unsafe Array(UnsafeRawBufferPointer(start: $0, count: MemoryLayout<ChaChaNonce>.size)) }
    }
}

extension TransportSealing {
    /// Seals in place or from place to place, in a buffer of exactly the size of the result.
    func seal(counter: UInt64, _ plaintext: [UInt8], inPlace: Bool) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: plaintext.count + 16)
        if inPlace { out.replaceSubrange(..<plaintext.count, with: plaintext) }
        unsafe out.withUnsafeMutableBytes { out in
            guard let start = out.baseAddress else { return }
            if inPlace {
                unsafe seal(counter: counter, source: start, byteCount: plaintext.count, destination: start)
            } else {
                unsafe (plaintext + [0]).withUnsafeBytes { source in
                    guard let source = source.baseAddress else { return }
                    unsafe seal(counter: counter, source: source, byteCount: plaintext.count, destination: start)
                }
            }
        }
        return out
    }

    /// The verdict and all of the destination buffer, whose start is the plaintext when the verdict is true.
    func tryOpening(counter: UInt64, _ sealed: [UInt8], inPlace: Bool) -> (isAuthentic: Bool, buffer: [UInt8]) {
        var out = inPlace ? sealed + [0] : [UInt8](repeating: 0, count: sealed.count + 1)
        let isAuthentic = unsafe out.withUnsafeMutableBytes { out in
            guard let start = out.baseAddress else { return false }
            if inPlace {
                return unsafe open(
                    counter: counter, source: start, sealedByteCount: sealed.count, destination: start)
            }
            return unsafe (sealed + [0]).withUnsafeBytes { source in
                guard let source = source.baseAddress else { return false }
                return unsafe open(
                    counter: counter, source: source, sealedByteCount: sealed.count, destination: start)
            }
        }
        return (isAuthentic, out)
    }

    /// The plaintext; `nil` if the message is refused.
    func open(counter: UInt64, _ sealed: [UInt8], inPlace: Bool) -> [UInt8]? {
        let (isAuthentic, buffer) = tryOpening(counter: counter, sealed, inPlace: inPlace)
        return isAuthentic ? Array(buffer.prefix(sealed.count - 16)) : nil
    }
}
