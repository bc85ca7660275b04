// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1

/// What is wrong with bytes that should be DER.
package struct DERError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }

    /// Runs what reads DER.
    static func reading<Value>(_ read: () throws -> Value) throws(DERError) -> Value {
        do {
            return try read()
        } catch let error as DERError {
            throw error
        } catch let error as ASN1Error {
            // Its description names a line of the library's.
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

    /// Seconds since 1970 of a UTCTime or GeneralizedTime in the forms of RFC 5280 section 4.1.2.5: to the second.
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
    /// The next element, which has to be there.
    mutating func take() throws -> ASN1Node {
        guard let node = next() else { throw DERError("an element is missing") }
        return node
    }

    /// Throws unless everything was read.
    mutating func end(of what: String) throws {
        guard next() == nil else { throw DERError("something follows the end of \(what)") }
    }
}
