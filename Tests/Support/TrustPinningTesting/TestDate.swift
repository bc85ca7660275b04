// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// A date, midnight UTC of a day, without a calendar library.
package struct TestDate: Sendable, Hashable {
    package var year: Int
    package var month: Int
    package var day: Int

    package init(_ year: Int, _ month: Int, _ day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// The seconds since 1970, computed with the days-from-civil algorithm.
    package var seconds: Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return (era * 146_097 + dayOfEra - 719_468) * 86_400
    }

    package var date: Date { Date(timeIntervalSince1970: Double(seconds)) }

    var digits: String {
        func pad(_ value: Int, _ width: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return pad(year, 4) + pad(month, 2) + pad(day, 2) + "000000Z"
    }

    /// The date at which the tests take place.
    package static let today = TestDate(2026, 6, 1)
    package static let rootStart = TestDate(2020, 1, 1)
    package static let rootEnd = TestDate(2045, 1, 1)
    package static let leafStart = TestDate(2026, 1, 1)
    package static let leafEnd = TestDate(2027, 1, 1)
}
