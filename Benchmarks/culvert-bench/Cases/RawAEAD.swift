// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import Foundation

/// ChaCha20-Poly1305 alone over as many buffers as a batch has packets: a lower bound for the engine.
protocol RawAEAD {
    func seal()
    func open()
}

/// swift-crypto's public API, which allocates a result for each packet.
final class PublicAPI: RawAEAD {
    private let key = SymmetricKey(size: .bits256)
    private let plaintext: [UInt8]
    private var boxes: [ChaChaPoly.SealedBox] = []
    private var counter: UInt64 = 0

    init(byteCount: Int) {
        plaintext = [UInt8](repeating: 1, count: byteCount)
        boxes.reserveCapacity(Batch.count)
    }

    func seal() {
        boxes.removeAll(keepingCapacity: true)
        for _ in 0..<Batch.count {
            counter &+= 1
            let bytes = [0, 0, 0, 0] + (0..<8).map { UInt8(truncatingIfNeeded: counter >> UInt64(8 * $0)) }
            guard let nonce = try? ChaChaPoly.Nonce(data: bytes),
                let box = try? ChaChaPoly.seal(plaintext, using: key, nonce: nonce)
            else { return }
            boxes.append(box)
        }
    }

    func open() {
        for box in boxes { keep((try? ChaChaPoly.open(box, using: key))?.count ?? 0) }
    }
}
