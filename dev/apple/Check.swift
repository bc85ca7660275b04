// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// One system: its SDK, its modules, and the compilers' messages about them.
struct Check: Sendable {
    /// Object code instead of modules.
    let makesObjects: Bool
    let system: System
    let sdk: SDK
    let out: String
    /// The package's modules and their dependencies, each after its own.
    let order: [Module]
    let modules: [String: Module]
    private let marks: [String: String]

    /// Numbers of Darwin's headers that are written down by hand.
    private static let layout = Module(
        name: "DarwinLayout", kind: .ours, files: ["\(root)/dev/apple/DarwinLayout.c"],
        dependencies: ["CTunnelSystem"])

    init(_ plan: Plan, _ system: System, toolchain: Toolchain, objects: Bool, tests: Bool) throws {
        makesObjects = objects
        self.system = system
        guard let floor = plan.floors[system.name] else { throw Failed("the manifest does not name \(system.name)") }
        sdk = try SDK(system, floor: floor, toolchain: toolchain)
        out = "\(sdk.folder)/\(objects ? "objects" : "modules")"
        let own =
            plan.ownModules(system.name).filter { $0.kind == .ours || tests && !objects } + [Self.layout]
        let all = try (plan.systemModules() + own).map {
            var module = $0
            if module.isOurs { module.dependencies += Plan.frameworks }
            return module
        }
        modules = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

        var order: [Module] = []
        func visit(_ name: String, _ modules: [String: Module]) {
            guard let module = modules[name], !order.contains(where: { $0.name == name }) else { return }
            for dependency in module.dependencies { visit(dependency, modules) }
            order.append(module)
        }
        for module in own { visit(module.name, modules) }
        self.order = order

        var marks: [String: String] = [:]
        for module in order {
            var mark = Fingerprint()
            for text in [sdk.stamp, "\(objects)"] + module.flags { mark.add(text) }
            try mark.add(files: ["\(tool)/Check.swift"] + module.files + files(in: module.include, ".h"))
            for name in module.dependencies { mark.add(marks[name] ?? "") }
            marks[module.name] = mark.text
        }
        self.marks = marks
    }

    /// The SDK, and maps of the modules in C.
    func prepare() async throws {
        try await sdk.make(testing: order.contains { $0.kind == .test })
        // Apart: swift-crypto's own C is not built for Apple's systems, so ours must not find it.
        try write(
            Plan.foreignC.map { "extern module \($0.name) \"\($0.folder)/module.modulemap\"\n" }.joined(),
            to: "\(out)/foreign.modulemap")
        let maps = order.filter { $0.isOurs && $0.swiftFiles.isEmpty }.compactMap { module -> String? in
            if let map = files(in: module.include, ".modulemap").first {
                return "extern module \(module.name) \"\(map)\"\n"
            }
            // As SwiftPM makes them: the header of the module's name, or the only one.
            let headers = files(in: module.include, ".h")
            return (headers.first { $0.stem == module.name } ?? headers.first).map {
                "module \(module.name) { header \"\($0)\" export * }\n"
            }
        }
        try write(maps.joined(), to: "\(out)/module.modulemap")
    }

    struct Verdict: Sendable {
        var line: String?
        var problems: [String] = []
    }

    /// Compiles a module, unless it and all it needs are as they were when it was compiled well.
    func compile(_ module: Module) async throws -> Verdict {
        func line(_ told: String) -> String { "\(system.name.padded(8)) \(module.name.padded(24)) \(told)" }
        let began = ContinuousClock.now
        let mark = "\(out)/\(module.name).mark"
        if (try? read(mark)) == marks[module.name] {
            return Verdict(line: module.isOurs ? line("ok, as before") : nil)
        }
        let problems = try await problems(of: module)
        if problems.isEmpty { try write(marks[module.name] ?? "", to: mark) }
        guard module.isOurs || !problems.isEmpty else { return Verdict() }
        let lines = try module.files.reduce(0) { try $0 + read($1).utf8.count { $0 == UInt8(ascii: "\n") } }
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        let told = problems.isEmpty ? "ok" : "\(problems.count) problems"
        return Verdict(
            line: line(
                "\(told.padded(12)) \("\(module.files.count)".padded(-4)) files \("\(lines)".padded(-6)) lines "
                    + "\(String(format: "%.1f", seconds).padded(-5)) s"),
            problems: problems)
    }

    // MARK: - Compilers

    /// Returns the compilers' messages about a module, with some files replaced by others. The result is stored where other
    /// modules find it, unless it goes into another folder.
    func problems(of module: Module, replacing: [String: String] = [:], into folder: String? = nil) async throws
        -> [String]
    {
        let sources = module.cFiles.map { replacing[$0] ?? $0 }
        var found: [String] = []
        for (path, source) in zip(module.cFiles, sources) { found += try await c(module, source, named: path) }
        let swift = module.swiftFiles.map { replacing[$0] ?? $0 }
        if !swift.isEmpty { found += try await self.swift(module, swift, into: folder) }
        return found
    }

    private func c(_ module: Module, _ source: String, named path: String) async throws -> [String] {
        let includes = order.filter { $0.isOurs && $0.swiftFiles.isEmpty }.map { "-I\($0.include)" }
        let makes = makesObjects && module.name != Self.layout.name
        let output = makes ? ["-O2", "-c", "-o", "\(out)/\(module.name)-\(path.stem).o"] : ["-fsyntax-only"]
        let done = try await run(
            [
                "\(sdk.toolchain.folder)/bin/clang", "-target", sdk.target, "-isysroot", sdk.sysroot, "-std=c17",
                "-Wall",
                "-Wextra", "-Werror",
            ] + includes + output + [source])
        return try Self.problems(done, place: path)
    }

    private func swift(_ module: Module, _ sources: [String], into folder: String?) async throws -> [String] {
        let output = "\(folder ?? out)/\(module.identifier).swiftmodule"
        let map = module.kind == .foreign ? "foreign" : "module"
        var flags =
            sdk.flags + ["-I", out, "-module-name", module.identifier] + module.flags
            + ["-Xcc", "-fmodule-map-file=\(out)/\(map).modulemap"]
        if module.kind == .foreign {
            flags += Plan.foreignC.flatMap { ["-Xcc", "-I\($0.folder)"] }
            flags.append("-experimental-skip-non-inlinable-function-bodies")
        } else {
            flags.append("-enable-testing")
        }
        if try !module.isProgram || sources.contains(where: { try read($0).contains("@main") }) {
            flags.append("-parse-as-library")
        }
        for name in ["Swift", "Observation"] + (module.kind == .test ? ["Testing"] : []) {
            flags += ["-load-plugin-library", "\(sdk.toolchain.folder)/lib/swift/host/plugins/lib\(name)Macros.so"]
        }
        var command = ["-emit-module", "-o", output]
        if makesObjects, module.kind == .ours {
            flags.removeAll { $0 == "-enable-testing" }
            command = ["-emit-object", "-O", "-whole-module-optimization", "-emit-module-path", output]
            command += ["-o", output.removingSuffix("swiftmodule") + "o"]
        }
        let strictness = module.isOurs ? ["-warnings-as-errors"] : ["-suppress-warnings"]
        let done = try await run(sdk.toolchain.frontend + command + strictness + flags + sources)
        let problems = try Self.problems(done, place: module.name)
        if !problems.isEmpty, folder == nil {
            // Other modules still need this one: without the failed checks it can often be built.
            let lenient = ["-emit-module", "-o", output, "-disable-availability-checking", "-suppress-warnings"]
            _ = try await run(sdk.toolchain.frontend + lenient + flags + sources)
        }
        return problems
    }

    /// Errors, and warnings where they fail a compiler; or that it failed without a word.
    private static func problems(_ done: Output, place: String) throws -> [String] {
        let diagnostic = #/^(/[^:]+):(\d+):\d+: (?:fatal )?(error|warning): (.*)$/#
        let found = Set(
            done.err.split(separator: "\n").compactMap { $0.wholeMatch(of: diagnostic)?.output }
                .filter { done.status != 0 || $0.3 == "error" }
                .map { "\(String($0.1).fromRoot):\($0.2): \($0.3): \($0.4)" }
        ).sorted()
        guard done.status != 0, found.isEmpty else { return found }
        try write(done.err, to: "\(build)/last-crash.txt")
        return ["\(place): \(done.err.split(separator: "\n").last.map(String.init) ?? "status \(done.status)")"]
    }
}

/// Compiles all modules of all systems, each after its dependencies, and prints a line for each. Returns the number of
/// problems of each system.
func compile(_ checks: [Check], jobs: Int) async throws -> [Int] {
    struct Key: Hashable, Sendable {
        var check: Int
        var name: String
    }
    if let check = checks.first { try await SDK.makeEssentials(check.sdk.toolchain) }
    try await withThrowingTaskGroup(of: Void.self) { group in
        for check in checks { group.addTask { try await check.prepare() } }
        try await group.waitForAll()
    }
    return try await withThrowingTaskGroup(of: (Key, Check.Verdict).self) { group in
        var waiting = checks.indices.flatMap { index in checks[index].order.map { (index, $0) } }
        var done: Set<Key> = []
        var counts = checks.map { _ in 0 }
        var running = 0
        while !waiting.isEmpty || running > 0 {
            while running < jobs,
                let next = waiting.firstIndex(where: { index, module in
                    let there = checks[index].modules
                    return module.dependencies.allSatisfy {
                        there[$0] == nil || done.contains(Key(check: index, name: $0))
                    }
                })
            {
                let (index, module) = waiting.remove(at: next)
                running += 1
                group.addTask { (Key(check: index, name: module.name), try await checks[index].compile(module)) }
            }
            guard let (key, verdict) = try await group.next() else {
                throw Failed("modules need each other in a circle")
            }
            running -= 1
            done.insert(key)
            counts[key.check] += verdict.problems.count
            if let line = verdict.line { say(line, verdict.problems) }
        }
        return counts
    }
}

/// Prints a line, and some of its details.
func say(_ line: String, _ more: [String], limit: Int = 60) {
    print(([line] + more.prefix(limit)).joined(separator: "\n  "))
    if more.count > limit { print("  and \(more.count - limit) more") }
    fflush(nil)
}

extension String {
    /// With spaces behind it, or before it for a negative width.
    func padded(_ width: Int) -> String {
        let spaces = String(repeating: " ", count: max(0, abs(width) - count))
        return width < 0 ? spaces + self : self + spaces
    }
}
