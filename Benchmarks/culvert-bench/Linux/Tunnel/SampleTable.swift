// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Samples by figure and contender, in the order that the figures first came in.
struct SampleTable {
    private var order: [(figure: Figure, names: [String])] = []
    private var samples: [Figure: [String: [Double]]] = [:]

    mutating func add(_ figure: Figure, _ name: String, _ value: Double) {
        if let index = order.firstIndex(where: { $0.figure == figure }) {
            if !order[index].names.contains(name) { order[index].names.append(name) }
        } else {
            order.append((figure, [name]))
        }
        samples[figure, default: [:]][name, default: []].append(value)
    }

    /// A part for each figure: a row for each contender, and the first one's ratio to each other, round by round.
    var rows: [Row] {
        order.flatMap { figure, names -> [Row] in
            let title = figure.title
            var rows = names.map { Row(title, $0, figure.unit, samples: samples[figure]?[$0] ?? []) }
            guard figure.hasRatio, let first = rows.first else { return rows }
            for other in rows.dropFirst() where first.samples.count == other.samples.count {
                let ratios = zip(first.samples, other.samples).map { $0 / $1 }
                rows.append(Row(title, "\(first.name) / \(other.name)", .ratio, samples: ratios))
            }
            return rows
        }
    }
}
