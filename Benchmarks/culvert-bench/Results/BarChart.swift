// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Bar charts with whiskers, as SVG.
struct BarChart {
    struct Bar {
        /// The colour and the entry of the legend.
        var series: Int
        var value: Double
        var least: Double
        var greatest: Double

        init(series: Int, row: Row) {
            self.series = series
            (value, least, greatest) = (row.median, row.least, row.greatest)
        }
    }

    struct Group {
        var label: String
        var bars: [Bar]
    }

    var title: String
    var groups: [Group]
    /// One bar to a line, the labels at the left, instead of columns.
    var isHorizontal = false

    private static let colours = ["#1f6f8b", "#d98e32", "#7a7f87", "#8a5a9e", "#5b8c5a", "#b5524f"]
    private static let width = 920.0
    private static let gap = 24.0

    /// All charts in one picture: columns two to a line, horizontal ones below each other.
    static func draw(_ charts: [BarChart], series: [String], caption: String) -> String {
        var body = ""
        var x = gap
        for (index, name) in series.enumerated() {
            body += "<rect x=\"\(round(x))\" y=\"18\" width=\"12\" height=\"12\" fill=\"\(colour(index))\"/>\n"
            body += text(name, x: x + 18, y: 28, size: 13)
            x += 40 + Double(name.count) * 7.2
        }
        var y = 52.0
        var column = 0
        var tallest = 0.0
        for chart in charts {
            let isWide = chart.isHorizontal || chart.groups.count * (chart.groups.first?.bars.count ?? 1) > 10
            if isWide, column == 1 {
                y += tallest + gap
                (column, tallest) = (0, 0)
            }
            let room = isWide ? width - 2 * gap : (width - 3 * gap) / 2
            let left = gap + Double(column) * (room + gap)
            let drawn = chart.isHorizontal ? chart.lines(left, y, room) : chart.columns(left, y, room)
            body += drawn.text
            tallest = max(tallest, drawn.height)
            column += 1
            if isWide || column == 2 {
                y += tallest + gap
                (column, tallest) = (0, 0)
            }
        }
        if column == 1 { y += tallest + gap }
        body += text(caption, x: gap, y: y + 4, size: 11, fill: "#666")
        let height = Int(y + 20)
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(width)) \(height)" width="\(Int(width))" \
            height="\(height)" font-family="sans-serif">
            <rect width="100%" height="100%" fill="#ffffff"/>
            \(body)</svg>

            """
    }

    private var most: Double {
        groups.flatMap(\.bars).map(\.greatest).filter(\.isFinite).max().flatMap { $0 > 0 ? $0 : nil } ?? 1
    }

    private func columns(_ left: Double, _ top: Double, _ room: Double) -> (text: String, height: Double) {
        let plotTop = top + 40
        let plotHeight = 170.0
        let base = plotTop + plotHeight
        let scale = plotHeight / Self.roundUp(most)
        var body = Self.text(title, x: left, y: top + 14, size: 14, weight: "bold")
        body += Self.line(left, base, left + room, base, "#444")
        let groupWidth = room / Double(max(groups.count, 1))
        for (index, group) in groups.enumerated() {
            let start = left + Double(index) * groupWidth
            let barWidth = min((groupWidth - 16) / Double(max(group.bars.count, 1)), 46)
            let offset = start + (groupWidth - barWidth * Double(group.bars.count)) / 2
            for (place, bar) in group.bars.enumerated() where bar.value.isFinite {
                let x = offset + Double(place) * barWidth
                let height = bar.value * scale
                body += Self.box(x + 2, base - height, barWidth - 4, height, Self.colour(bar.series))
                let middle = x + barWidth / 2
                var labelAt = base - height
                if bar.least < bar.greatest {
                    body += Self.line(middle, base - bar.least * scale, middle, base - bar.greatest * scale, "#222")
                    for end in [bar.least, bar.greatest] {
                        body += Self.line(middle - 4, base - end * scale, middle + 4, base - end * scale, "#222")
                    }
                    labelAt = base - bar.greatest * scale
                }
                body += Self.text(Report.number(bar.value), x: middle, y: labelAt - 4, size: 10, anchor: "middle")
            }
            body += Self.text(group.label, x: start + groupWidth / 2, y: base + 16, size: 11, anchor: "middle")
        }
        return (body, base + 24 - top)
    }

    private func lines(_ left: Double, _ top: Double, _ room: Double) -> (text: String, height: Double) {
        let labels = 270.0
        let step = 22.0
        let scale = (room - labels - 70) / Self.roundUp(most)
        var body = Self.text(title, x: left, y: top + 14, size: 14, weight: "bold")
        var y = top + 28
        for group in groups {
            body += Self.text(group.label, x: left + labels - 8, y: y + 14, size: 12, anchor: "end")
            for bar in group.bars where bar.value.isFinite {
                body += Self.box(left + labels, y + 3, bar.value * scale, step - 7, Self.colour(bar.series))
                let middle = y + 3 + (step - 7) / 2
                if bar.least < bar.greatest {
                    let ends = [bar.least, bar.greatest].map { left + labels + $0 * scale }
                    body += Self.line(ends[0], middle, ends[1], middle, "#222")
                    for end in ends { body += Self.line(end, middle - 4, end, middle + 4, "#222") }
                }
                let end = left + labels + max(bar.value, bar.greatest) * scale
                body += Self.text(Report.number(bar.value), x: end + 6, y: y + 14, size: 11)
            }
            y += step
        }
        body += Self.line(left + labels, top + 26, left + labels, y, "#444")
        return (body, y - top)
    }

    // MARK: Pieces

    /// A round number not below `value`, with a little room above.
    private static func roundUp(_ value: Double) -> Double {
        var power = 1.0
        while power * 10 <= value { power *= 10 }
        while power > value { power /= 10 }
        for step in [1, 1.5, 2, 3, 4, 5, 6, 8, 10.0] where step * power >= value { return step * power }
        return value
    }

    private static func colour(_ series: Int) -> String { colours[series % colours.count] }

    private static func round(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10))"
    }

    private static func box(_ x: Double, _ y: Double, _ width: Double, _ height: Double, _ fill: String) -> String {
        "<rect x=\"\(round(x))\" y=\"\(round(y))\" width=\"\(round(width))\" height=\"\(round(height))\" fill=\"\(fill)\"/>\n"
    }

    private static func line(_ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ stroke: String) -> String {
        "<path d=\"M\(round(x1)) \(round(y1))L\(round(x2)) \(round(y2))\" stroke=\"\(stroke)\"/>\n"
    }

    private static func text(
        _ text: String, x: Double, y: Double, size: Int, anchor: String = "start", weight: String = "normal",
        fill: String = "#222"
    ) -> String {
        let safe = text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
        return "<text x=\"\(round(x))\" y=\"\(round(y))\" font-size=\"\(size)\" text-anchor=\"\(anchor)\" "
            + "font-weight=\"\(weight)\" fill=\"\(fill)\">\(safe)</text>\n"
    }
}
