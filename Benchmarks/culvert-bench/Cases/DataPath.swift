// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Sealing and opening through the engine's plans, in batches of 64, compared with the AEAD alone.
enum DataPath {
    static func suiteName(_ size: Int) -> String { "Data path, \(size)-byte packets, batches of \(Batch.count)" }

    static func suites(isQuick: Bool) -> [Suite] {
        let sizes = isQuick ? [1420] : [1420, 64, 256, 1024]
        return sizes.map { size in
            var suite = Suite(name: suiteName(size)) { _ in try cases(size) }
            suite.derive = ratios
            return suite
        }
    }

    private static func cases(_ size: Int) throws -> [Case] {
        let batch = Batch(try Pair(), packetByteCount: size)
        batch.seal()
        batch.open()
        guard batch.isDelivered else { throw BenchmarkError("the data path does not deliver") }
        var cases = [
            Case(name: "engine seal", unit: .nanosecondsPerPacket) { timed($0, count: Batch.count, batch.seal) },
            Case(name: "engine open", unit: .nanosecondsPerPacket) { duration in
                timedInside(duration, count: Batch.count) {
                    batch.seal()
                    return elapsed(batch.open)
                }
            },
        ]
        // Sealed packets are padded, so the AEAD alone gets the same number of bytes.
        for (name, aead) in rawAEADs(byteCount: min((size + 15) & ~15, max(size, 1420))) {
            cases.append(
                Case(name: "\(name) seal", unit: .nanosecondsPerPacket) { duration in
                    timedInside(duration, count: Batch.count) {
                        let time = elapsed(aead.seal)
                        aead.open()
                        return time
                    }
                })
            cases.append(
                Case(name: "\(name) open", unit: .nanosecondsPerPacket) { duration in
                    timedInside(duration, count: Batch.count) {
                        aead.seal()
                        return elapsed(aead.open)
                    }
                })
        }
        return cases
    }

    private static func ratios(_ rows: [Row]) -> [Row] {
        ["seal", "open"].flatMap { direction -> [Row] in
            guard let engine = rows.first(where: { $0.name == "engine \(direction)" }) else { return [] }
            return rows.filter { $0.name.hasSuffix(direction) && $0.name != engine.name }.map { other in
                Row(engine.suite, "engine / \(other.name)", .ratio, samples: [engine.median / other.median])
            }
        }
    }
}
