// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The times of two contenders that take turns of a few milliseconds. Other load on the machine then affects both alike,
/// and the medians leave out the turns that it disturbs most.
struct Turns {
    /// The median time of a packet, in nanoseconds; not a number if packets are lost.
    private(set) var first = Double.nan
    private(set) var second = Double.nan
    /// The median of the second contender's time to the first one's, turn by turn.
    private(set) var ratio = Double.nan

    /// The number of packets of each contender in a turn.
    static let packets = 2_000
    private static let fewest = 3

    /// Measures for about `duration` nanoseconds.
    /// - Parameters:
    ///   - sendFirst: Sends this number of packets of the first contender, and waits for their arrival.
    ///   - sendSecond: The same for the second contender.
    ///   - clock: Returns the time in nanoseconds.
    init(
        _ duration: Int, clock: () -> Int = nanoseconds, _ sendFirst: (Int) throws -> Void,
        _ sendSecond: (Int) throws -> Void
    ) {
        func time(_ send: (Int) throws -> Void) throws -> Double {
            let start = clock()
            try send(Self.packets)
            return Double(clock() - start) / Double(Self.packets)
        }
        var times: [(first: Double, second: Double)] = []
        let start = clock()
        repeat {
            do {
                // Neither contender is always the first one of a turn.
                if times.count.isMultiple(of: 2) {
                    let first = try time(sendFirst)
                    times.append((first, try time(sendSecond)))
                } else {
                    let second = try time(sendSecond)
                    times.append((try time(sendFirst), second))
                }
            } catch {
                return
            }
        } while times.count < Self.fewest || clock() - start < duration
        first = Self.median(times.map(\.first))
        second = Self.median(times.map(\.second))
        ratio = Self.median(times.map { $0.second / $0.first })
    }

    private static func median(_ values: [Double]) -> Double { Row("", "", .ratio, samples: values).median }
}
