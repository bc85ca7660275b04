// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Something that is compiled for a system.
struct Module: Sendable {
    enum Kind: Sendable {
        /// Apple's SDK has it, and it is a stand-in here.
        case system
        /// A module of another package, of which only the declarations are needed: bodies are skipped.
        case foreign
        case ours, test
    }

    var name: String
    var kind: Kind
    var files: [String]
    var dependencies: [String]
    var flags: [String] = []
    var isProgram = false

    /// The name in the form for compilers.
    var identifier: String { name.replacing("-", with: "_") }
    var isExample: Bool { files.first?.hasPrefix("\(root)/Examples/") == true }
    var isOurs: Bool { kind == .ours || kind == .test }
    var include: String { (files.first?.folder ?? root) + "/include" }
    var swiftFiles: [String] { files.filter { $0.hasSuffix(".swift") } }
    var cFiles: [String] { files.filter { $0.hasSuffix(".c") } }
}

/// The output of `swift package dump-package`.
private struct Manifest: Decodable {
    struct Platform: Decodable { var platformName, version: String }
    struct Name: Decodable { var name: String }

    struct Target: Decodable {
        struct Setting: Decodable {
            var kind: [String: [String: String]]

            private enum Key: String, CodingKey { case kind }

            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Key.self)
                // Settings with other values than text have no meaning here.
                kind = (try? container.decode([String: [String: String]].self, forKey: .kind)) ?? [:]
            }
        }

        var name, type: String
        var path: String?
        var exclude: [String]?
        var dependencies: [Dependency]
        var settings: [Setting]

        var folder: String { "\(root)/\(path ?? "\(type == "test" ? "Tests" : "Sources")/\(name)")" }

        func needs(_ system: String) -> [String] {
            dependencies.filter { $0.platforms.isEmpty || $0.platforms.contains(system) }.map(\.name)
        }
    }

    /// A target, or a product of a package, and where it is needed.
    struct Dependency: Decodable {
        struct Condition: Decodable { var platformNames: [String]? }

        var name = ""
        var platforms: [String] = []

        private enum Kind: String, CodingKey { case byName, target, product }

        init(from decoder: any Decoder) throws {
            let kinds = try decoder.container(keyedBy: Kind.self)
            guard let kind = kinds.allKeys.first else { return }
            var parts = try kinds.nestedUnkeyedContainer(forKey: kind)
            name = try parts.decode(String.self)
            if kind == .product {
                _ = try parts.decode(String?.self)  // Its package,
                _ = try parts.decode([String: String]?.self)  // and another name for it.
            }
            platforms = try parts.decode(Condition?.self)?.platformNames ?? []
        }
    }

    var platforms: [Platform]
    var traits: [Name]
    var targets: [Target]

    /// The manifest as it is on a Mac, where SwiftPM evaluates it for all of Apple's systems.
    static func read(standIns: Bool) async throws -> Manifest {
        var environment = ["CULVERT_PLATFORM": "macos"]
        if standIns { environment["CULVERT_STANDINS"] = "1" }
        let text = try await need(
            ["swift", "package", "--scratch-path", "\(build)/manifest", "dump-package"], environment: environment)
        return try JSONDecoder().decode(Manifest.self, from: Data(text.utf8))
    }
}

/// The modules for each system, with their files and flags: from the manifest, and a few additions.
struct Plan: Sendable {
    // MARK: - Additions to the manifest

    private static let checkouts = "\(root)/.build/checkouts"
    private static let own = ["CRYPTO_IN_SWIFTPM", "CRYPTO_IN_SWIFTPM_FORCE_BUILD_API"]
    // `Crypto` is swift-crypto as it is on Apple's systems; CryptoKit is what swift-crypto is elsewhere, which has
    // CryptoKit's interface, by its authors.
    private static let foreign: [(name: String, folder: String, defines: [String], dependencies: [String])] = [
        ("CryptoKit", "swift-crypto/Sources/Crypto", own, ["CryptoBoringWrapper"]),
        ("CryptoBoringWrapper", "swift-crypto/Sources/CryptoBoringWrapper", own, []),
        ("Crypto", "swift-crypto/Sources/Crypto", ["CRYPTO_IN_SWIFTPM"], ["CryptoKit"]),
        ("Logging", "swift-log/Sources/Logging", [], []),
        ("SwiftASN1", "swift-asn1/Sources/SwiftASN1", [], []),
        ("_CertificateInternals", "swift-certificates/Sources/_CertificateInternals", [], []),
        (
            "X509", "swift-certificates/Sources/X509", [],
            ["SwiftASN1", "Crypto", "_CryptoExtras", "_CertificateInternals", "Security"]
        ),
        ("ArgumentParserToolInfo", "swift-argument-parser/Sources/ArgumentParserToolInfo", [], []),
        ("ArgumentParser", "swift-argument-parser/Sources/ArgumentParser", [], ["ArgumentParserToolInfo"]),
    ]
    /// The folders of their C modules.
    static let foreignC = ["CCryptoBoringSSL", "CCryptoBoringSSLShims", "CXKCP", "CXKCPShims"].map {
        (name: $0, folder: "\(checkouts)/swift-crypto/Sources/\($0)/include")
    }
    /// The stand-ins. All of our code may use those of frameworks in Apple's SDK.
    private static let system: [String: [String]] = [
        "Dispatch": [], "Foundation": ["Dispatch"], "os": ["Foundation"], "Network": ["Foundation"],
        "Security": ["Foundation"], "NetworkExtension": ["Foundation", "Network"], "SwiftUI": ["Foundation"],
        "UIKit": ["Foundation"],
        "_CryptoExtras": ["Foundation", "Crypto", "Security"], "CryptoExtras": ["_CryptoExtras"],
    ]
    static let frameworks = system.keys.filter { !$0.hasSuffix("CryptoExtras") }.sorted() + ["CryptoKit"]
    /// Tests that are not compiled: those that need namespaces, those that play the other side of stand-ins, and those that
    /// use parts of Foundation without a stand-in (Process, JSONSerialization). Every other target is compiled unless it
    /// needs a package that is not compiled (NIO, GRDB, Hummingbird); ``unexplained(_:)`` checks that.
    private static let elsewhere: Set = ["CulvertTests", "PrivilegedTests", "AppleTests"]
    private static let elsewhereFiles: Set = ["OpenSSLTests.swift"]
    /// These have pinning and no packet tunnels.
    private static let onlyPinning = ["watchos", "visionos"]

    // MARK: -

    let floors: [String: String]
    private let traits: [String]
    private let targets: [Manifest.Target]

    init() async throws {
        let ordinary = try await Manifest.read(standIns: false)
        let apple = try await Manifest.read(standIns: true)
        floors = Dictionary(uniqueKeysWithValues: ordinary.platforms.map { ($0.platformName, $0.version) })
        // A set, which is printed in any order.
        traits = ordinary.traits.map(\.name).filter { $0 != "default" }.sorted()
        var known: Set<String> = []
        targets = (ordinary.targets + apple.targets).filter { known.insert($0.name).inserted }
    }

    /// Stand-ins and other packages.
    func systemModules() throws -> [Module] {
        var modules = Self.system.map {
            Module(
                name: $0, kind: .system, files: files(in: "\(standIns)/\($0)", ".swift"), dependencies: $1,
                flags: ["-swift-version", "6"])
        }
        for (name, folder, defines, dependencies) in Self.foreign {
            var sources = files(in: "\(Self.checkouts)/\(folder)", ".swift")
            guard !sources.isEmpty else { throw Failed("there is no \(folder); run `swift package resolve`") }
            if name == "CryptoKit" {
                sources = try sources.map(Self.renamed) + files(in: "\(standIns)/CryptoKit", ".swift")
            }
            let package = folder.split(separator: "/").first.map(String.init) ?? folder
            modules.append(
                Module(
                    name: name, kind: .foreign, files: sources,
                    dependencies: dependencies + ["Foundation", "Dispatch"],
                    flags: ["-swift-version", "5", "-package-name", package] + defines.flatMap { ["-D", $0] }))
        }
        return modules
    }

    /// A copy of a file of swift-crypto, which calls its module by its name here and there.
    private static func renamed(_ path: String) throws -> String {
        let copy = "\(build)/CryptoKit/\(path.dropFirst(checkouts.count + 1))"
        try write(try read(path).replacing(pattern: "\\bCrypto\\.(?=[A-Z])", with: "CryptoKit."), to: copy)
        return copy
    }

    /// The parts of the package for a system: everything except code for NIO and Linux; in order.
    func ownModules(_ system: String) -> [Module] {
        let known = Set(Self.foreign.map(\.name)).union(Self.system.keys).union(["CryptoKit"])
        var refused = Self.elsewhere
        var kept: [Module] = []
        var waiting = targets.filter { !known.contains($0.name) && !refused.contains($0.name) }
        var names = known
        while true {
            let there = Set(waiting.map(\.name)).union(names)
            if let index = waiting.firstIndex(where: { !there.isSuperset(of: $0.needs(system)) }) {
                refused.insert(waiting.remove(at: index).name)
            } else if let index = waiting.firstIndex(where: { names.isSuperset(of: $0.needs(system)) }) {
                let target = waiting.remove(at: index)
                kept.append(module(target, needs: target.needs(system)))
                names.insert(target.name)
            } else {
                break
            }
        }
        if let model = kept.first(where: { $0.name == "AppleTunnelModel" }), let folder = model.files.first?.folder {
            // One module with its views, as the example's Xcode project has it.
            var app = model
            app.name = "AppleTunnelApp"
            app.files += files(in: "\(folder.folder)/App", ".swift")
            kept.append(app)
        }
        if let model = kept.first(where: { $0.name == "PinnedAppModel" }), let folder = model.files.first?.folder {
            // The example's two starts, with the samples of docs/trust-pinning.md in the file that Linux shares.
            for start in ["SwiftUI", "UIKit"] {
                var app = model
                app.name = "PinnedApp\(start)"
                app.files.append("\(root)/Tests/DocumentationTests/Samples/PinnedClient.swift")
                app.files += files(in: "\(folder.folder)/\(start)", ".swift")
                kept.append(app)
            }
        }
        if Self.onlyPinning.contains(system) {
            let wanted = Self.reach(["TrustPinning", "TrustPinningFoundation"], kept)
            kept.removeAll { !wanted.contains($0.name) }
        }
        if system != "macos" {
            // A phone runs no command lines. Examples are compiled all the same.
            let programs = Set(kept.filter { $0.isProgram && !$0.isExample }.map(\.name)).union(["ArgumentParser"])
            kept = kept.filter { Self.reach([$0.name], kept).isDisjoint(with: programs) }
        }
        return kept
    }

    /// The targets that are not compiled for a system that has tunnels and programs, and why.
    func leftOut(_ system: String) -> [String] {
        let kept = Set(ownModules(system).map(\.name)).union(Self.system.keys)
        let known = kept.union(Self.foreign.map(\.name))
        return targets.filter { !kept.contains($0.name) }.map { target in
            let missing = target.needs(system).filter { !known.contains($0) }
            return missing.isEmpty ? target.name : "\(target.name) (needs \(missing.joined(separator: ", ")))"
        }
    }

    /// The targets of the manifest, other than tests, that are not compiled although every package that they need is.
    func unexplained(_ system: String) -> [String] {
        let kept = Set(ownModules(system).map(\.name)).union(Self.system.keys).union(Self.foreign.map(\.name))
        let ours = Set(targets.map(\.name))
        return targets.filter { target in
            !kept.contains(target.name) && target.type != "test"
                && Self.missing(target, targets, system, kept).isSubset(of: ours)
        }.map(\.name)
    }

    /// The names that a target needs, directly or not, and that are not compiled.
    private static func missing(
        _ target: Manifest.Target, _ targets: [Manifest.Target], _ system: String, _ kept: Set<String>
    ) -> Set<String> {
        var (found, next) = (Set<String>(), target.needs(system).filter { !kept.contains($0) })
        while let name = next.popLast() {
            guard found.insert(name).inserted, let other = targets.first(where: { $0.name == name }) else { continue }
            next += other.needs(system).filter { !kept.contains($0) }
        }
        return found
    }

    /// Returns these modules and their dependencies.
    static func reach(_ names: Set<String>, _ modules: [Module]) -> Set<String> {
        let more = modules.filter { names.contains($0.name) }.reduce(into: names) { $0.formUnion($1.dependencies) }
        return more == names ? names : reach(more, modules)
    }

    private func module(_ target: Manifest.Target, needs: [String]) -> Module {
        let folder = target.folder
        let excluded = (target.exclude ?? []).map { "\(folder)/\($0)" }
        let sources = files(in: folder, ".swift", ".c").filter { file in
            // The files of a tutorial are a separate target, as in SwiftPM.
            !Self.elsewhereFiles.contains(file.lastPart) && !file.dropFirst(folder.count).contains(".docc/")
                && !excluded.contains { file == $0 || file.hasPrefix($0 + "/") }
        }
        var flags = ["-package-name", "culvert"] + traits.flatMap { ["-D", $0] }
        for (kind, value) in target.settings.flatMap(\.kind) {
            switch kind {
            case "enableUpcomingFeature": flags += ["-enable-upcoming-feature", value["_0"] ?? ""]
            case "swiftLanguageMode": flags += ["-swift-version", value["_0"] ?? ""]
            case "strictMemorySafety": flags += ["-strict-memory-safety"]
            default: break
            }
        }
        // A part of another system has no settings.
        if !flags.contains("-swift-version") { flags += ["-swift-version", "6"] }
        let isTest = target.type == "test" || folder.hasPrefix("\(root)/Tests/") || folder.contains(".docc/")
        return Module(
            name: target.name, kind: isTest ? .test : .ours, files: sources, dependencies: needs, flags: flags,
            isProgram: target.type == "executable")
    }
}
