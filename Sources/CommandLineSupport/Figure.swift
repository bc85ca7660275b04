// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// Formats numbers for people.
package enum Figure {
    /// `value` with exactly `places` decimal places, rounded; a dash if it is not finite.
    package static func decimal(_ value: Double, places: Int) -> String {
        let scale = (0..<places).reduce(1.0) { product, _ in product * 10 }
        let scaled = (value.magnitude * scale).rounded()
        guard scaled.isFinite, scaled < 9e15 else { return "-" }
        let whole = Int(scaled)
        let sign = value < 0 && whole != 0 ? "-" : ""
        guard places > 0 else { return sign + grouped(whole) }
        let unit = Int(scale)
        let fraction = String(whole % unit)
        let zeros = String(repeating: "0", count: places - fraction.count)
        return "\(sign)\(grouped(whole / unit)).\(zeros)\(fraction)"
    }

    /// `value` with commas between thousands.
    package static func grouped(_ value: some BinaryInteger) -> String {
        let digits = String(value.magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return value < 0 ? "-" + text : text
    }

    /// Milliseconds with three decimal places below ten, and fewer above.
    package static func milliseconds(_ duration: Duration) -> String {
        let value = duration.milliseconds
        return decimal(value, places: value < 10 ? 3 : value < 100 ? 2 : 1) + " ms"
    }

    /// Seconds with one decimal place.
    package static func seconds(_ duration: Duration) -> String {
        decimal(duration.milliseconds / 1000, places: 1) + " s"
    }

    /// Bytes in the largest decimal unit that leaves at least one digit before the point.
    package static func bytes(_ count: some BinaryInteger) -> String {
        var value = Double(count)
        for unit in ["B", "kB", "MB", "GB"] {
            if value < 1000 { return decimal(value, places: unit == "B" ? 0 : 1) + " " + unit }
            value /= 1000
        }
        return decimal(value, places: 1) + " TB"
    }

    /// Megabits per second.
    package static func rate(_ bitsPerSecond: Double) -> String {
        let millions = bitsPerSecond / 1e6
        return decimal(millions, places: millions < 100 ? 1 : 0) + " Mbit/s"
    }
}

extension Duration {
    /// This duration in milliseconds.
    package var milliseconds: Double {
        Double(components.seconds) * 1e3 + Double(components.attoseconds) / 1e15
    }
}

extension JSON {
    /// A number with this many decimal places; null if it is not finite.
    package static func decimal(_ value: Double, places: Int) -> JSON {
        // Numbers in JSON have no grouping commas.
        let number = Figure.decimal(value, places: places).filter { $0 != "," }
        return number == "-" ? .null : .number(number)
    }
}
