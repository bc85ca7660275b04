// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

@main
enum Program {
    static let usage = """
        culvert-bench: how fast the parts of Culvert are on this machine

        usage: culvert-bench [--quick] [--json] [--save FILE] [--filter TEXT] [--runs N] [--list]
               culvert-bench allocations [--quick] [--json] [--save FILE]    (through scripts/bench allocations)
               culvert-bench trust [--quick] [--json] [--save FILE]          judging a server, beside its handshake
               culvert-bench messages [--quick] [--json] [--save FILE]       an app's request to a provider, and its reply
               culvert-bench report [--into FOLDER] [--complete] FILE...     the aims, from saved results
        \(PlatformCommands.usage)
          --quick         small sizes and short runs: shows that everything works; the figures are rough
          --json          JSON in place of the table
          --save FILE     writes the results to FILE as JSON
          --filter TEXT   only the suites whose name contains TEXT, in any case
          --runs N        runs of each case, 9 if not given; the cases of a suite take turns
          --list          the names of the suites

        Each row gives the median of the runs, and the least and the greatest. Figures belong to the machine and the
        moment that they were taken on; compare only what one run measured.
        """

    /// The program's own file.
    static var path: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    }

    static func main() {
        var arguments = Array(CommandLine.arguments.dropFirst())
        do {
            switch arguments.first {
            case "allocations":
                arguments.removeFirst()
                try AllocationCount.run(try Options(arguments))
            case "trust":
                arguments.removeFirst()
                var options = try Options(arguments)
                options.filter = "TLS trust"
                try run(options)
            case "messages":
                arguments.removeFirst()
                var options = try Options(arguments)
                options.filter = MessageRoundTrip.name
                try run(options)
            case "report":
                arguments.removeFirst()
                try ReportCommand.run(arguments)
            case PeerMemory.command:
                let numbers = arguments.dropFirst().compactMap { Int($0) }
                PeerMemory.measure(numbers.first ?? 1, networks: numbers.dropFirst().first ?? 1)
            case "-h", "--help", "help": print(usage)
            case let command? where try PlatformCommands.run(command, arguments.dropFirst()): break
            default: try run(try Options(arguments))
            }
        } catch let error as UsageError {
            complain("\(error.message); see culvert-bench --help")
            exit(2)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    static func complain(_ text: String) {
        FileHandle.standardError.write(Data("culvert-bench: \(text)\n".utf8))
    }

    /// Prints the progress.
    static func note(_ text: String) {
        let time = nanoseconds() / 1_000_000_000 - began
        FileHandle.standardError.write(Data("[\(time) s] \(text)\n".utf8))
    }

    private static let began = nanoseconds() / 1_000_000_000

    private static func run(_ options: Options) throws {
        #if MEASURES_TRUST
            let trust = TrustEvaluation.suites
        #else
            let trust: (Bool) -> [Suite] = { _ in [] }
        #endif
        let suites = [
            DataPath.suites, AEADThreads.suites, Handshakes.suites, EngineHold.suites, Routing.suites,
            PeerMemory.suites,
            Scale.suites, ConfigurationText.suites, trust, MessageRoundTrip.suites, LoginTunnel.suites,
            PlatformCommands.suites,
        ].flatMap { $0(options.isQuick) }
        let chosen = suites.filter { suite in
            options.filter.map { suite.name.lowercased().contains($0.lowercased()) } ?? true
        }
        guard !chosen.isEmpty else { throw UsageError(message: "no suite has such a name") }
        guard !options.isList else {
            for suite in chosen { print(suite.name) }
            return
        }
        if !options.isJSON { print(Machine.present.line) }
        var rows: [Row] = []
        for suite in chosen {
            note(suite.name)
            let results = try measure(suite, options)
            rows += results
            if !options.isJSON { Report.printTable(results) }
        }
        let results = Results(title: "inside", settings: "\(options.runs) runs", programs: [:], rows: rows)
        if let file = options.saveTo { try results.save(to: file) }
        if options.isJSON { print(try results.json) }
    }

    private static func measure(_ suite: Suite, _ options: Options) throws -> [Row] {
        let cases = try suite.prepare(options.isQuick)
        let runs = min(options.runs, suite.maximumRuns ?? .max)
        let duration = options.isQuick ? 20_000_000 : 200_000_000
        var samples = [[Double]](repeating: [], count: cases.count)
        for _ in 0..<runs {
            for (index, one) in cases.enumerated() { samples[index].append(one.measure(duration)) }
        }
        let rows = zip(cases, samples).map { Row(suite.name, $0.name, $0.unit, samples: $1) }
        return rows + suite.derive(rows)
    }
}

/// The arguments are wrong.
struct UsageError: Error {
    let message: String
}

/// The options of the command line.
struct Options {
    var isQuick = false
    var isJSON = false
    var isList = false
    var filter: String?
    var saveTo: String?
    var runs: Int

    init(_ arguments: [String]) throws {
        var runs: Int?
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--quick": isQuick = true
            case "--json": isJSON = true
            case "--list": isList = true
            case "--filter":
                guard let text = rest.popFirst() else { throw UsageError(message: "--filter needs a text") }
                filter = text
            case "--save":
                guard let file = rest.popFirst() else { throw UsageError(message: "--save needs a file") }
                saveTo = file
            case "--runs":
                guard let number = rest.popFirst().flatMap({ Int($0) }), number > 0 else {
                    throw UsageError(message: "--runs needs a number from 1")
                }
                runs = number
            default: throw UsageError(message: "unknown argument '\(argument)'")
            }
        }
        self.runs = runs ?? (isQuick ? 3 : 9)
    }
}
