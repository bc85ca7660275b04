// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The release of a Linux kernel, for known defects that a probe cannot detect.
package struct KernelRelease: Comparable, Sendable {
    package var major: Int
    package var minor: Int
    package var patch: Int

    package init(_ major: Int, _ minor: Int = 0, _ patch: Int = 0) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    /// Reads the numbers at the start of `uname -r`, such as `6.8.0-45-generic`; missing numbers are zero.
    /// - Returns: `nil` if the text does not begin with a number.
    package init?(_ text: some StringProtocol) {
        var numbers: [Int] = []
        for part in text.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false).prefix(3) {
            let digits = part.prefix { ("0"..."9").contains($0) }
            guard let number = Int(digits) else { break }
            numbers.append(number)
            // The text after the digits is the distributor's.
            if digits.endIndex != part.endIndex { break }
        }
        guard !numbers.isEmpty else { return nil }
        numbers += [0, 0]
        self.init(numbers[0], numbers[1], numbers[2])
    }

    package static func < (a: KernelRelease, b: KernelRelease) -> Bool {
        (a.major, a.minor, a.patch) < (b.major, b.minor, b.patch)
    }

    /// Whether the kernel sends joined datagrams (`UDP_SEGMENT`) correctly. Versions 7.0 to 7.1.4 do not if the last
    /// datagram is as long as the others.
    package var cutsDatagramsRightly: Bool { self < KernelRelease(7) || self > KernelRelease(7, 1, 4) }

    /// Whether the kernel receives joined datagrams (`UDP_GRO`) correctly. Before 5.12 even the request fails.
    package var joinsDatagramsRightly: Bool { self >= KernelRelease(5, 12) }
}
