// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

/// The Swift code in the documentation is, word for word, in a Swift file that is compiled: here, in the examples, or among
/// the samples for Apple's platforms, which the stand-ins' build compiles. `swift manifest` marks parts of a manifest, which
/// is not in such a file.
@Suite("Samples of the documentation")
struct SampleTests {
    struct Sample: CustomTestStringConvertible {
        /// The file and the line of its beginning.
        var place: String
        var lines: [String]

        var testDescription: String { place }

        /// The modules that it says it imports.
        var imports: Set<String> { Set(lines.filter { $0.hasPrefix("import ") }) }

        /// The rest of it, without empty lines around it.
        var body: ArraySlice<String> {
            let rest = lines.drop { $0.isEmpty || $0.hasPrefix("import ") }
            return rest.prefix(rest.count - rest.reversed().prefix { $0.isEmpty }.count)
        }

        /// Whether a file of these lines contains it, with any indentation.
        func stands(in file: [String]) -> Bool {
            // Imports of one platform are inside a condition.
            let hasImports = imports.allSatisfy { wanted in file.contains { $0.drop { $0 == " " } == wanted } }
            guard let first = body.first, hasImports else { return false }
            return file.indices.contains { start in
                guard start + body.count <= file.count, file[start].hasSuffix(first) else { return false }
                let margin = file[start].dropLast(first.count)
                guard margin.allSatisfy({ $0 == " " }) else { return false }
                return zip(file[start...], body).allSatisfy { line, wanted in
                    line == (wanted.isEmpty ? "" : margin + wanted)
                }
            }
        }
    }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func files(in folder: String, _ suffix: String) -> [URL] {
        let all = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        return (all?.compactMap { $0 as? URL } ?? []).filter { $0.path.hasSuffix(suffix) }.sorted { $0.path < $1.path }
    }

    static func lines(of file: URL) -> [String] {
        // An unreadable file has no samples and contains none: the counts below detect this.
        let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
        return text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    /// The blocks between fences of Swift in a file's lines.
    private static func samples(_ file: URL, _ lines: [String]) -> [Sample] {
        var samples: [Sample] = []
        var open: Sample?
        for (number, line) in lines.enumerated() {
            if line == "```swift" {
                let place = file.path.dropFirst(root.path.count).drop { $0 == "/" }
                open = Sample(place: "\(place):\(number + 2)", lines: [])
            } else if line == "```" {
                if let sample = open { samples.append(sample) }
                open = nil
            } else {
                open?.lines.append(line)
            }
        }
        return samples
    }

    static let all: [Sample] = {
        let texts =
            ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map { root.appending(path: $0) } + files(in: "docs", ".md")
            + files(in: "Sources", ".md") + files(in: "Examples", ".md")
        let comments = files(in: "Sources", ".swift").flatMap { file in
            // A line that is not a comment ends a sample's lines, not the sample: its fence does.
            let comments = lines(of: file).map { line in
                let text = line.drop { $0 == " " }
                return text.hasPrefix("///") ? String(text.dropFirst(text.hasPrefix("/// ") ? 4 : 3)) : ""
            }
            return samples(file, comments)
        }
        return texts.flatMap { samples($0, lines(of: $0)) } + comments
    }()

    private static let compiled: [[String]] = {
        let samples =
            files(in: "Tests/DocumentationTests/Samples", ".swift") + files(in: "Tests/AppleTests/Samples", ".swift")
            + files(in: "Examples", ".swift")
        return samples.map(lines(of:))
    }()

    @Test("Each sample is in a compiled file", arguments: all)
    func stands(_ sample: Sample) {
        #expect(
            Self.compiled.contains { sample.stands(in: $0) },
            "\(sample.place): put it, word for word, into a file in Tests/DocumentationTests/Samples")
    }

    @Test("There are samples, and a sample outside a compiled file is found")
    func finds() {
        #expect(Self.all.count >= 12)
        #expect(Set(Self.all.map { $0.place.prefix { $0 != ":" } }).contains("README.md"))
        var sample = Sample(place: "", lines: ["import A", "", "f {", "    g", "}", ""])
        #expect(sample.stands(in: ["import A", "import B", "", "  f {", "      g", "  }"]))
        #expect(!sample.stands(in: ["import B", "  f {", "      g", "  }"]))
        #expect(!sample.stands(in: ["import A", "  f {", "    g", "  }"]))
        sample.lines[3] = "    h"
        #expect(!sample.stands(in: ["import A", "f {", "    g", "}"]))
    }
}
