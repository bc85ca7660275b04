// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The stored measurements of one run.
struct Results: Codable {
    /// The part of the suite.
    var title: String
    /// When it was measured, in UTC.
    var date: String
    var machine: Machine
    var settings: String
    /// The versions of the programs that took part.
    var programs: [String: String]
    var rows: [Row]

    init(title: String, settings: String, programs: [String: String], rows: [Row]) {
        self.title = title
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(secondsFromGMT: 0)
        format.dateFormat = "yyyy-MM-dd"
        date = format.string(from: Date())
        machine = Machine.present
        self.settings = settings
        self.programs = programs
        self.rows = rows
    }

    private static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        return encoder
    }

    var json: String { get throws { String(decoding: try Self.encoder.encode(self), as: UTF8.self) } }

    func save(to file: String) throws {
        try Data((try json + "\n").utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
    }

    static func save(_ all: [Results], to file: String) throws {
        let text = String(decoding: try encoder.encode(all), as: UTF8.self) + "\n"
        try Data(text.utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
    }

    /// From a file of one, or of several.
    static func load(_ file: String) throws -> [Results] {
        let decoder = JSONDecoder()
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        do {
            let data = try Data(contentsOf: URL(fileURLWithPath: file))
            if let one = try? decoder.decode(Results.self, from: data) { return [one] }
            return try decoder.decode([Results].self, from: data)
        } catch {
            throw BenchmarkError("\(file) holds no results: \(error)")
        }
    }
}

extension [Results] {
    /// The first row of a suite and a name.
    func row(_ suite: String, _ name: String) -> Row? {
        for results in self {
            if let row = results.rows.first(where: { $0.suite == suite && $0.name == name }) { return row }
        }
        return nil
    }

    /// The median of the ratios of culvert-wg to another contender.
    func ratio(_ figure: Figure, to name: String) -> Double? {
        row(figure.title, "\(ContenderName.culvert) / \(name)")?.median
    }
}
