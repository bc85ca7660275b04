// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension DERElement {
    /// A BOOLEAN, which in DER is 0 or 255.
    package func boolean() throws(DERError) -> Bool {
        guard content.count == 1, let octet = content.first, octet == 0 || octet == 0xff else {
            throw DERError("a BOOLEAN is neither false nor true")
        }
        return octet == 0xff
    }

    /// The octets of an INTEGER in its shortest form.
    package func integer() throws(DERError) -> ArraySlice<UInt8> {
        guard let first = content.first else { throw DERError("an INTEGER is empty") }
        let second = content.dropFirst().first
        if let second, first == 0 && second < 0x80 || first == 0xff && second >= 0x80 {
            throw DERError("an INTEGER is not in its shortest form")
        }
        return content
    }

    /// An INTEGER from 0 to 2^31 - 1.
    package func smallInteger() throws(DERError) -> Int {
        let octets = try integer()
        guard let first = octets.first, first < 0x80, octets.count <= 4 else {
            throw DERError("an INTEGER is out of range")
        }
        var value = 0
        for octet in octets { value = value << 8 | Int(octet) }
        return value
    }

    /// The octets of a BIT STRING, and how many bits of the last one are not used. Those must be zero.
    package func bitString() throws(DERError) -> (octets: ArraySlice<UInt8>, unusedBits: Int) {
        guard let unused = content.first, unused < 8 else { throw DERError("a BIT STRING is malformed") }
        let octets = content.dropFirst()
        guard unused == 0 || octets.last.map({ $0 & (1 << unused - 1) == 0 }) ?? false else {
            throw DERError("a BIT STRING is malformed")
        }
        return (octets, Int(unused))
    }

    /// Seconds since 1970 of a UTCTime or GeneralizedTime in the forms of RFC 5280 section 4.1.2.5: to the second,
    /// ending in Z.
    package func time() throws(DERError) -> Int64 {
        var digits: [Int] = []
        guard content.last == UInt8(ascii: "Z") else { throw DERError("a time does not end in Z") }
        for octet in content.dropLast() {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet) else {
                throw DERError("a time holds something other than digits")
            }
            digits.append(Int(octet - UInt8(ascii: "0")))
        }
        var year: Int
        switch (tag, digits.count) {
        case (DERTag.utcTime.rawValue, 12):
            year = digits[0] * 10 + digits[1]
            year += year < 50 ? 2000 : 1900
            digits.removeFirst(2)
        case (DERTag.generalizedTime.rawValue, 14):
            year = digits[0] * 1000 + digits[1] * 100 + digits[2] * 10 + digits[3]
            digits.removeFirst(4)
        default: throw DERError("a time has \(digits.count) digits")
        }
        let parts = stride(from: 0, to: 10, by: 2).map { digits[$0] * 10 + digits[$0 + 1] }
        guard let days = CivilDate(year: year, month: parts[0], day: parts[1])?.daysSince1970,
            parts[2] < 24, parts[3] < 60, parts[4] < 60
        else { throw DERError("a time does not exist") }
        return days * 86_400 + Int64(parts[2] * 3600 + parts[3] * 60 + parts[4])
    }
}

/// A day of the Gregorian calendar that exists, for years 0 to 9999.
package struct CivilDate: Hashable, Sendable {
    package let year: Int
    package let month: Int
    package let day: Int

    package init?(year: Int, month: Int, day: Int) {
        guard (0...9999).contains(year), (1...12).contains(month) else { return nil }
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard day >= 1, day <= lengths[month - 1] else { return nil }
        self.year = year
        self.month = month
        self.day = day
    }

    /// Days since 1 January 1970, counted in years that begin on 1 March.
    package var daysSince1970: Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return Int64(era * 146_097 + dayOfEra - 719_468)
    }
}
