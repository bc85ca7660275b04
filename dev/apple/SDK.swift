// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Apple's open-source headers and its stub of libSystem, as `scripts/apple` has them installed: they come with Zig.
let ziglang = "\(build)/ziglang"
let tool = "\(root)/dev/apple"

/// A replacement of Apple's SDK for one target: a sysroot of its open-source headers, and Swift's modules.
struct SDK: Sendable {
    let system: System
    let target: String
    let toolchain: Toolchain
    /// Changes when anything does that an SDK is made from.
    let stamp: String

    var folder: String { "\(build)/\(system.name)" }
    var sysroot: String { "\(folder)/sdk" }
    var resources: String { "\(folder)/swift" }

    init(_ system: System, floor: String, toolchain: Toolchain) throws {
        self.system = system
        self.toolchain = toolchain
        target = "arm64-apple-\(system.os)\(floor)"
        var stamp = Fingerprint()
        // The output of compilers contains absolute paths.
        for text in [target, build, toolchain.folder, toolchain.version] { stamp.add(text) }
        let names = ["SDK.swift", "Interfaces.swift", "headers.txt", "requirements.txt"].map { "\(tool)/\($0)" }
        try stamp.add(files: names + files(in: "\(standIns)/Darwin", ".swift"))
        self.stamp = stamp.text
    }

    var flags: [String] {
        [
            "-target", target, "-sdk", sysroot, "-resource-dir", resources, "-module-cache-path", "\(folder)/cache",
            "-disable-objc-interop", "-no-color-diagnostics",
        ]
    }

    /// Makes all parts, unless they exist.
    func make(testing: Bool) async throws {
        let mark = "\(folder)/stamp"
        if (try? read(mark)) != stamp {
            try? FileManager.default.removeItem(atPath: folder)
            try makeSysroot()
            try await makeSwift()
            try write(stamp, to: mark)
        }
        if testing, !exists(module("Testing")) { try await own("Testing") }
    }

    // MARK: - The C side

    private func makeSysroot() throws {
        let include = "\(sysroot)/usr/include"
        let manager = FileManager.default
        try makeFolder("\(sysroot)/usr/lib")
        try manager.copyItem(atPath: "\(ziglang)/ziglang/lib/libc/include/any-darwin-any", toPath: include)
        try manager.copyItem(
            atPath: "\(ziglang)/ziglang/lib/libc/darwin/libSystem.tbd", toPath: "\(sysroot)/usr/lib/libSystem.tbd")
        try write(try settings(), to: "\(sysroot)/SDKSettings.json")

        var parts: [String: [String]] = [:]
        var part = ""
        for line in try read("\(tool)/headers.txt").split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(separator: " ").map(String.init)
            let path = "\(include)/\(words[0])"
            if line.hasPrefix("[") {
                part = line.trimmingCharacters(in: ["[", "]"])
            } else if words.count > 1, !words[1...].contains(system.name) {
                if words.contains("absent") { try manager.removeItem(atPath: path) }
            } else if exists(path) {
                parts[part, default: []].append(words[0])
            } else {
                throw Failed("there is no \(words[0]) in \(ziglang)")
            }
        }
        if system.name != "macos" { try? manager.removeItem(atPath: "\(include)/launch.h") }

        func headers(_ part: String) -> String {
            (parts[part] ?? []).map {
                let name = $0.dropLast(2).map { "/.+-".contains($0) ? "_" : String($0) }.joined()
                return "  module h_\(name) { header \"\($0)\" export * }\n"
            }.joined()
        }
        let folders = [("a", "_types"), ("b", "sys/_types"), ("c", "sys/_pthread")].map {
            "  module types_\($0) { umbrella \"\($1)\" module * { export * } export * }\n"
        }.joined()
        // MachO is apart, as in Apple's SDK.
        try write(
            """
            module _DarwinFoundation1 [system] [extern_c] {
            \(headers("below"))\(folders)  export *
            }
            module Darwin [system] [extern_c] {
              export _DarwinFoundation1
            \(headers("Darwin"))  textual header "assert.h"
              export *
            }
            module MachO [system] [extern_c] {
            \(headers("MachO"))  export *
            }

            """, to: "\(include)/module.modulemap")
        // A type with the name of a Swift type, which Apple's SDK hides too.
        try write(
            "---\nName: Darwin\nTypedefs:\n- Name: Duration\n  Availability: nonswift\n",
            to: "\(sysroot)/usr/lib/swift/apinotes/Darwin.apinotes")
    }

    private func settings() throws -> String {
        // Swift and clang ask for the whole name.
        var settings: [String: Any] = [
            "CanonicalName": system.folder + system.version, "DisplayName": system.name, "Version": system.version,
            "MaximumDeploymentTarget": system.version + ".99",
        ]
        if system.name == "visionos" {
            // Makes availability of visionOS follow from that of iOS.
            let since = [
                "17.0": "1.0", "17.4": "1.1", "17.5": "1.2", "18.0": "2.0", "18.2": "2.2", "18.4": "2.4", "18.5": "2.5",
                "26.0": "26.0",
            ]
            let back = Dictionary(uniqueKeysWithValues: since.map { ($1, $0) })
            settings["VersionMap"] = ["iOS_visionOS": since, "visionOS_iOS": back]
        }
        return String(
            decoding: try JSONSerialization.data(withJSONObject: settings, options: .sortedKeys), as: UTF8.self)
    }

    // MARK: - The Swift side

    private func makeSwift() async throws {
        try makeFolder("\(resources)/\(system.folder)")
        for part in ["shims", "clang", "apinotes"] {
            try FileManager.default.createSymbolicLink(
                atPath: "\(resources)/\(part)", withDestinationPath: "\(toolchain.folder)/lib/swift/\(part)")
        }
        let shims = ["SwiftShims", "_SwiftConcurrencyShims", "SwiftOverlayShims", "_SynchronizationShims"]
        try write(
            shims.map { "extern module \($0) \"shims/module.modulemap\"\n" }.joined(),
            to: "\(resources)/module.modulemap")
        for name in ["Swift", "SwiftOnoneSupport", "_Concurrency"] { try await own(name, "-parse-stdlib") }
        try await own("_StringProcessing")
        try await own("_Builtin_float")
        // The overlay of the C library, by hand.
        try await frontend(
            [
                "-emit-module", "-parse-as-library", "-module-name", "Darwin", "-swift-version", "6",
                "-enable-library-evolution", "-module-link-name", "swiftDarwin", "-O",
            ] + files(in: "\(standIns)/Darwin", ".swift") + ["-o", module("Darwin")])
        try await own("Synchronization")
        try await own("Observation")
        try await compile(
            values(try read(Self.essentialsPath), module: "FoundationValues", for: target), as: "FoundationValues")
    }

    private func module(_ name: String) -> String {
        "\(resources)/\(system.folder)/\(name).swiftmodule/arm64-apple-\(system.moduleOS).swiftmodule"
    }

    private func frontend(_ arguments: [String]) async throws {
        if let output = arguments.last { try makeFolder(output.folder) }
        try await need(toolchain.frontend + flags + arguments)
    }

    private func compile(_ interface: String, as name: String, _ more: [String] = []) async throws {
        let path = "\(folder)/interfaces/\(name).swiftinterface"
        try write(interface, to: path)
        try await frontend(
            ["-compile-module-from-interface", path, "-module-name", name, "-disable-availability-checking"]
                + more + ["-o", module(name)])
    }

    /// Makes one of Swift's own modules.
    private func own(_ name: String, _ more: String...) async throws {
        let folder = "\(toolchain.folder)/lib/swift/linux/\(name).swiftmodule"
        guard let source = files(in: folder, "-unknown-linux-gnu.swiftinterface").first else {
            throw Failed("\(folder) has no interface")
        }
        try await compile(try interface(try read(source), of: name, for: target), as: name, more)
    }

    // MARK: - For all systems

    private static let essentialsPath = "\(build)/FoundationEssentials.txt"

    /// The values of Foundation (Data, Date, URL, JSON), as the open-source one declares them: printed once for all systems.
    static func makeEssentials(_ toolchain: Toolchain) async throws {
        var stamp = Fingerprint()
        stamp.add(toolchain.version)
        try stamp.add(files: ["\(tool)/Interfaces.swift"])
        let mark = essentialsPath + ".stamp"
        if (try? read(mark)) == stamp.text { return }
        let swift = "\(toolchain.folder)/lib/swift"
        let modules = files(in: "\(swift)/linux/Swift.swiftmodule", "-linux-gnu.swiftmodule")
        guard let triple = modules.first?.stem else { throw Failed("\(swift) has no module Swift") }
        let printed = essentialsPath + ".printed"
        try await need([
            "\(toolchain.folder)/bin/swift-synthesize-interface", "-module-name", "FoundationEssentials",
            "-target", triple, "-resource-dir", swift, "-I", "\(swift)/linux",
            "-module-cache-path", "\(build)/host-cache", "-o", printed,
        ])
        try write(essentials(try read(printed)), to: essentialsPath)
        try write(stamp.text, to: mark)
    }
}
