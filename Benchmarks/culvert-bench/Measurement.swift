// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch

/// One thing that is measured.
struct Case {
    /// The name in the table.
    let name: String
    let unit: Unit
    /// Repeats the work for about the given time and returns the figure in `unit`.
    let measure: (_ nanoseconds: Int) -> Double
}

/// The unit of a figure.
enum Unit: String, Codable {
    case nanosecondsPerPacket = "ns/packet"
    case nanoseconds = "ns"
    case milliseconds = "ms"
    case perSecond = "/s"
    case bytes = "bytes"
    case megabytesPerSecond = "MB/s"
    case ratio = "x"
    case perPacket = "/packet"
    case gigabitsPerSecond = "Gbit/s"
    case percent = "%"
    case mebibytes = "MiB"
    case kibibytes = "KiB"
    case secondsPerGigabyte = "s/GB"
    case perGigabyte = "/GB"
    case microseconds = "us"
    case megabitsPerSecond = "Mbit/s"
    case millionPacketsPerSecond = "million/s"
    case instructionsPerPacket = "instructions/packet"
    case index = "of 1"
    case billionPerGigabyte = "billion/GB"
    case segments = "segments"
}

/// Cases that share their data and are measured alternately, so that other load on the machine affects all alike.
struct Suite {
    let name: String
    /// Makes the cases when their turn comes; their data is released before the next suite.
    let prepare: (_ isQuick: Bool) throws -> [Case]
    /// Further rows that follow from the figures.
    var derive: (_ rows: [Row]) -> [Row] = { _ in [] }
    /// The largest number of runs; `nil` for the requested number.
    var maximumRuns: Int?
}

/// A row of the table.
struct Row: Codable {
    var suite: String
    var name: String
    var unit: Unit
    var median: Double
    var least: Double
    var greatest: Double
    var note: String?
    /// The samples in the order that they were taken in.
    var samples: [Double]

    init(_ suite: String, _ name: String, _ unit: Unit, samples: [Double], note: String? = nil) {
        // A failed attempt is not a number.
        let sorted = samples.filter(\.isFinite).sorted()
        self.samples = samples
        self.suite = suite
        self.name = name
        self.unit = unit
        median = sorted.isEmpty ? .nan : (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
        least = sorted.first ?? .nan
        greatest = sorted.last ?? .nan
        self.note = note
    }
}

/// Nanoseconds on a clock that only goes forward.
@inline(__always)
func nanoseconds() -> Int { Int(DispatchTime.now().uptimeNanoseconds) }

/// Repeats `body`, which does `count` operations, for `duration` nanoseconds.
/// - Returns: the mean time of one operation.
func timed(_ duration: Int, count: Int, _ body: () -> Void) -> Double {
    let start = nanoseconds()
    var operations = 0
    var elapsed = 0
    repeat {
        body()
        operations += count
        elapsed = nanoseconds() - start
    } while elapsed < duration
    return Double(elapsed) / Double(operations)
}

/// Repeats `body`, which does `count` operations and returns their time, until that time reaches `duration`.
func timedInside(_ duration: Int, count: Int, _ body: () -> Int) -> Double {
    let start = nanoseconds()
    var operations = 0
    var elapsed = 0
    repeat {
        elapsed += body()
        operations += count
        // Preparation may take longer than the measured work, so it is limited too.
    } while elapsed < duration && nanoseconds() - start < 20 * duration
    return Double(elapsed) / Double(operations)
}

/// Runs `body` and gives the time that it took.
func elapsed(_ body: () throws -> Void) rethrows -> Int {
    let start = nanoseconds()
    try body()
    return nanoseconds() - start
}

nonisolated(unsafe) private var sink: UInt64 = 0

/// Prevents the compiler from removing work with an unused result.
@inline(never)
func keep(_ value: some BinaryInteger) {
    unsafe sink &+= UInt64(truncatingIfNeeded: value)
}
