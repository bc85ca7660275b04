// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// Measures the largest anonymous memory of this process, in addition to that at a given moment.
    package struct MemoryGauge {
        private let baseline: Int
        /// The most that was measured, in bytes.
        package private(set) var largest = 0

        /// Starts measuring.
        package init() throws { baseline = try Self.anonymousBytes() }

        package mutating func measure() throws { largest = max(largest, try Self.anonymousBytes() - baseline) }

        private static func anonymousBytes() throws -> Int {
            let text = try String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8)
            let line = text.split(separator: "\n").first { $0.hasPrefix("Anonymous:") }
            guard let word = line?.split(separator: " ").dropFirst().first, let kibibytes = Int(word) else {
                throw CocoaError(.fileReadCorruptFile)
            }
            return kibibytes << 10
        }
    }
#endif
