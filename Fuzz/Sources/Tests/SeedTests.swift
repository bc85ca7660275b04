// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

/// The fuzzers' checks, without a fuzzer. One at a time, since some have state that lasts from input to input.
@Suite("Seeds of the fuzzers", .serialized)
struct SeedTests {
    @Test(
        "Each seed passes its fuzzer's checks, and so do its variants with missing or changed bytes",
        arguments: FuzzTarget.allCases)
    func seeds(target: FuzzTarget) throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("seeds/\(target.rawValue)")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(names.count > 1)
        for name in names {
            let seed = [UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))
            target.check(seed)
            target.check(Array(seed.prefix(seed.count / 2)))
            target.check(seed.map { $0 ^ 1 })
        }
    }
}
