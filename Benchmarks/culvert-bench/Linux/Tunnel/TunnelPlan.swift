// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TunnelIO

/// The arguments of `culvert-bench tunnel` and `culvert-bench where`.
struct TunnelPlan {
    enum Part: String, CaseIterable {
        case transfer, delay, start, up, handshakes, spread
    }

    /// The most daemons, for which there are names of namespaces.
    static let mostDaemons = 4

    /// The command that measures tunnels.
    enum Command {
        /// Compares throughput, delay and other figures.
        case comparison
        /// Divides processor time by kind of work; without parts, pings, or the copy between TUN devices.
        case profile
    }

    let command: Command
    private(set) var rounds: Int
    private(set) var seconds: Int
    private(set) var pings = 1000
    private(set) var beside: [String] = []
    /// The layouts of threads in which culvert-wg is compared with itself; empty for its default alone.
    private(set) var lanes: [String] = []
    /// Other implementations of ChaCha20-Poly1305 with which `culvert-wg` is measured as a separate contender.
    private(set) var aeads: [String] = []
    private(set) var baseline: String?
    /// Whether the run only shows that all works.
    private(set) var isQuick = false
    private(set) var isJSON = false
    private(set) var saveTo: String?
    private(set) var daemon = ""
    /// The path of culvert; `nil` if there is none next to the daemon.
    private(set) var culvert: String?
    private var parts = Set(Part.allCases)
    /// The measured contenders; the others are compared with the first.
    private(set) var contenders: [Contender] = []

    func wants(_ part: Part) -> Bool { parts.contains(part) }

    /// Whether a contender takes part in a comparison that no aim needs. In a quick run only the first one does, because
    /// each turn takes a second or more.
    func compares(_ contender: Contender) -> Bool { !isQuick || contender.name == contenders.first?.name }

    /// - Returns: `nil` if help was requested.
    init?(_ arguments: [String], for command: Command) throws {
        self.command = command
        (rounds, seconds) = command == .profile ? (3, 10) : (5, 5)
        var rest = arguments[...]
        var takesDefault = command == .comparison
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
            case "--quick": (isQuick, rounds, seconds, pings) = (true, 1, 1, 100)
            case "--rounds": rounds = try number(argument, upTo: 100)
            case "--seconds": seconds = try number(argument, upTo: 60)
            case "--pings" where command == .comparison: pings = try number(argument, upTo: 100_000)
            case "--json": isJSON = true
            case "--save": saveTo = try text(argument)
            case "--only" where command == .comparison: parts = try Self.parts(try text(argument))
            case "--culvert": culvert = URL(fileURLWithPath: try text(argument)).path
            case "--baseline": baseline = URL(fileURLWithPath: try text(argument)).path
            case "--lanes":
                takesDefault = false
                lanes = try Self.layouts(try text(argument))
            case "--aead": aeads.append(try text(argument))
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
        guard beside.count + max(lanes.count, 1) + aeads.count <= Self.mostDaemons else {
            throw UsageError(
                message: "at most \(Self.mostDaemons) daemons, layouts and implementations of culvert-wg included")
        }
        contenders = listContenders()
    }

    /// Layouts as `CULVERT_LANES` takes them.
    private static func layouts(_ text: String) throws -> [String] {
        try text.split(separator: ",").map { word in
            guard LaneLayout(String(word)) != nil else { throw UsageError(message: "no layout of lanes '\(word)'") }
            return String(word)
        }
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
        var list = lanes.map { layout in
            Contender(
                name: "\(ContenderName.culvert), lanes \(layout)", kind: .wireGuard, program: daemon,
                environment: ["CULVERT_LANES=\(layout)"])
        }
        if list.isEmpty {
            // With several implementations in one run, the first contender has the one that each machine has.
            let own = aeads.isEmpty ? [] : ["CULVERT_AEAD=boringssl"]
            list = [Contender(name: ContenderName.culvert, kind: .wireGuard, program: daemon, environment: own)]
        }
        list += aeads.map { aead in
            Contender(
                name: "\(ContenderName.culvert), \(aead)", kind: .wireGuard, program: daemon,
                environment: ["CULVERT_AEAD=\(aead)"])
        }
        for (index, program) in beside.enumerated() {
            let version = Self.version(of: program).split(separator: " ").dropFirst().first
            let name = ([(program as NSString).lastPathComponent] + (version.map { [String($0)] } ?? []))
                .joined(separator: " ")
            let isTaken = list.contains { $0.name == name }
            list.append(
                Contender(name: isTaken ? "\(name) (\(index + 1))" : name, kind: .wireGuard, program: program))
        }
        if let baseline { list.append(Contender(name: ContenderName.baseline, kind: .baseline, program: baseline)) }
        // It has no lanes.
        if command == .comparison, lanes.isEmpty {
            list.append(Contender(name: ContenderName.copy, kind: .copy, program: Program.path))
        }
        return list
    }

    /// Seconds after which something must be wrong.
    var bound: Int {
        let count = contenders.count
        return 120 + rounds * count * (8 * (seconds + 6) + pings / 50 + 30)
    }

    var description: String {
        "\(rounds) \(rounds == 1 ? "round" : "rounds") in turns, transfers of \(seconds) s"
            + (command == .comparison ? ", \(pings) pings" : "")
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
