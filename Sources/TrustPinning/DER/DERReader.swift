// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1

/// The error of bytes that are not the expected DER.
package struct DERError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }

    /// Runs `read`, and converts each error that it throws into a ``DERError``.
    static func reading<Value>(_ read: () throws -> Value) throws(DERError) -> Value {
        do {
            return try read()
        } catch let error as DERError {
            throw error
        } catch let error as ASN1Error {
            // Use only the code, because the error's description contains a line of the library's source.
            throw DERError("not DER: \(error.code)")
        } catch { throw DERError("not DER") }
    }
}

extension ASN1Node {
    /// The elements of a SEQUENCE.
    func elements() throws -> ASN1NodeCollection.Iterator {
        guard identifier == .sequence, case .constructed(let nodes) = content else {
            throw DERError("a SEQUENCE was expected")
        }
        return nodes.makeIterator()
    }

    /// Seconds since 1970 of a UTCTime or GeneralizedTime without a fraction of a second (RFC 5280 section 4.1.2.5).
    func time() throws -> Int64 {
        let (date, hours, minutes, seconds): (CivilDate?, Int, Int, Int)
        if identifier == .generalizedTime {
            let time = try GeneralizedTime(derEncoded: self)
            guard time.rawFractionalSeconds.isEmpty else { throw DERError("a time has a fraction of a second") }
            date = CivilDate(year: time.year, month: time.month, day: time.day)
            (hours, minutes, seconds) = (time.hours, time.minutes, time.seconds)
        } else {
            let time = try UTCTime(derEncoded: self)
            date = CivilDate(year: time.year, month: time.month, day: time.day)
            (hours, minutes, seconds) = (time.hours, time.minutes, time.seconds)
        }
        guard let date, seconds < 60 else { throw DERError("a time does not exist") }
        return date.daysSince1970 * 86_400 + Int64(hours * 3600 + minutes * 60 + seconds)
    }
}

extension ASN1NodeCollection.Iterator {
    /// Returns the next element, or throws if there is none.
    mutating func requireNext() throws -> ASN1Node {
        guard let node = next() else { throw DERError("an element is missing") }
        return node
    }

    /// Throws if an element is left.
    mutating func requireEnd(of what: String) throws {
        guard next() == nil else { throw DERError("something follows the end of \(what)") }
    }
}

/// A valid day of the Gregorian calendar, in the years 0 to 9999.
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
