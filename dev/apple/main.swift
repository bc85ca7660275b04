// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

// Compiles the package for Apple's systems. See scripts/apple, which calls it.

let arguments = CommandLine.arguments.dropFirst()
let options = Set(arguments.filter { $0.hasPrefix("--") })
let systems = System.all.filter { arguments.contains($0.name) }

do {
    guard options.isSubset(of: ["--objects", "--no-tests", "--planted", "--counts"]),
        arguments.count == options.count + systems.count
    else { throw Failed("systems are \(System.all.map(\.name).joined(separator: " "))") }
    let plan = try await Plan()
    if options.contains("--counts") {
        try Counts.write(plan)
        exit(0)
    }
    let toolchain = try await Toolchain.find()
    let objects = options.contains("--objects")
    let checks = try systems.map {
        try Check(
            plan, $0, toolchain: toolchain, objects: objects,
            tests: $0.name == "macos" && !options.contains("--no-tests"))
    }
    var problems = try await compile(checks, jobs: ProcessInfo.processInfo.activeProcessorCount)
    if systems.contains(where: { $0.name == "macos" }), !objects {
        say("macos    left out: " + plan.leftOut("macos").joined(separator: "; "), [])
        let unexplained = plan.unexplained("macos")
        if !unexplained.isEmpty {
            throw Failed("not compiled, although all that they need is: \(unexplained.joined(separator: ", "))")
        }
    }
    for (index, check) in checks.enumerated() where problems[index] == 0 {
        let name = check.system.name
        if objects, ["macos", "tvos"].contains(name) {
            problems[index] += try await missingSymbols("CulvertC", of: check, floor: plan.floors[name] ?? "")
        }
        if options.contains("--planted"), name == "macos" { problems[index] += try await Planted.missed(by: check) }
    }
    exit(problems.allSatisfy { $0 == 0 } ? 0 : 1)
} catch {
    let text = (error as? Failed)?.text ?? "\(error)"
    FileHandle.standardError.write(Data("error: \(text)\n".utf8))
    exit(2)
}
