// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The arguments of `culvert-bench tunnel`.
struct TunnelPlan {
    enum Part: String, CaseIterable {
        case transfer, delay, start, up, handshakes, spread
    }

    private(set) var rounds = 5
    private(set) var seconds = 5
    private(set) var pings = 1000
    private(set) var beside: [String] = []
    private(set) var baseline: String?
    private(set) var isJSON = false
    private(set) var saveTo: String?
    private(set) var daemon = ""
    /// The path of culvert; `nil` if there is none next to the daemon.
    private(set) var culvert: String?
    private var parts = Set(Part.allCases)
    /// The measured contenders; the others are compared with the first.
    private(set) var contenders: [Contender] = []

    func wants(_ part: Part) -> Bool { parts.contains(part) }

    /// - Returns: `nil` if help was requested.
    init?(_ arguments: [String]) throws {
        var rest = arguments[...]
        var takesDefault = true
        func text(_ name: String) throws -> String {
            guard let value = rest.popFirst() else { throw UsageError(message: "\(name) needs a value") }
            return value
        }
        func number(_ name: String, upTo most: Int) throws -> Int {
            guard let value = Int(try text(name)), (1...most).contains(value) else {
                throw UsageError(message: "\(name) needs a number from 1 to \(most)")
            }
            return value
        }
        while let argument = rest.popFirst() {
            switch argument {
            case "-h", "--help": return nil
            case "--quick": (rounds, seconds, pings) = (1, 1, 100)
            case "--rounds": rounds = try number(argument, upTo: 100)
            case "--seconds": seconds = try number(argument, upTo: 60)
            case "--pings": pings = try number(argument, upTo: 100_000)
            case "--json": isJSON = true
            case "--save": saveTo = try text(argument)
            case "--only": parts = try Self.parts(try text(argument))
            case "--culvert": culvert = URL(fileURLWithPath: try text(argument)).path
            case "--baseline": baseline = URL(fileURLWithPath: try text(argument)).path
            case "--beside":
                takesDefault = false
                let program = try text(argument)
                if program != "none" { beside.append(program) }
            default:
                guard !argument.hasPrefix("-"), daemon.isEmpty else {
                    throw UsageError(message: "unknown argument '\(argument)'")
                }
                daemon = URL(fileURLWithPath: argument).path
            }
        }
        guard !daemon.isEmpty else { throw UsageError(message: "the path of culvert-wg is missing") }
        if culvert == nil {
            let sibling = URL(fileURLWithPath: daemon).deletingLastPathComponent().appendingPathComponent("culvert")
                .path
            if FileManager.default.isExecutableFile(atPath: sibling) { culvert = sibling }
        }
        if takesDefault { beside = ["wireguard-go"] }
        guard beside.count <= 3 else { throw UsageError(message: "at most three other daemons") }
        contenders = listContenders()
    }

    private static func parts(_ text: String) throws -> Set<Part> {
        var parts: Set<Part> = []
        for word in text.split(separator: ",") {
            guard let part = Part(rawValue: String(word)) else { throw UsageError(message: "no part '\(word)'") }
            parts.insert(part)
        }
        return parts
    }

    /// Other daemons are distinguished by their versions, which a figure needs.
    private func listContenders() -> [Contender] {
        var list = [Contender(name: ContenderName.culvert, kind: .wireGuard, program: daemon)]
        for (index, program) in beside.enumerated() {
            let version = Self.version(of: program).split(separator: " ").dropFirst().first
            let name = ([(program as NSString).lastPathComponent] + (version.map { [String($0)] } ?? []))
                .joined(separator: " ")
            let isTaken = list.contains { $0.name == name }
            list.append(
                Contender(name: isTaken ? "\(name) (\(index + 1))" : name, kind: .wireGuard, program: program))
        }
        if let baseline { list.append(Contender(name: ContenderName.baseline, kind: .baseline, program: baseline)) }
        list.append(Contender(name: ContenderName.copy, kind: .copy, program: Program.path))
        return list
    }

    /// Seconds after which something must be wrong.
    var bound: Int {
        let count = contenders.count
        return 120 + rounds * count * (8 * (seconds + 6) + pings / 50 + 30)
    }

    var description: String {
        "\(rounds) \(rounds == 1 ? "round" : "rounds") in turns, transfers of \(seconds) s, \(pings) pings"
    }

    /// The versions of the programs, as they say themselves.
    var versions: [String: String] {
        var versions = ["iperf3": Self.version(of: "iperf3")]
        for contender in contenders where contender.kind == .wireGuard {
            versions[contender.name] = Self.version(of: contender.program)
        }
        return versions
    }

    /// The first line of a program's version output: `wireguard-go v0.0.20250522`.
    private static func version(of program: String) -> String {
        let text = (try? Shell.run([program, "--version"])) ?? ""
        let line = text.split(separator: "\n").first { !$0.isEmpty }.map(String.init) ?? "unknown"
        return line.trimmingCharacters(in: .whitespaces)
    }
}
