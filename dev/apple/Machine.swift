// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The root of the repository, from which `scripts/apple` calls this, and the folder of all results.
let root = FileManager.default.currentDirectoryPath
let build = "\(root)/.build-apple"
let standIns = "\(root)/Tests/StandIns"

/// A failed step, with its output.
struct Failed: Error {
    var text: String
    init(_ text: String) { self.text = text }
}

/// A system that the package names, as compilers call it.
struct System: Sendable {
    /// As in the manifest.
    var name: String
    /// Of its Swift modules in a resource folder, which is the SDK's canonical name but for macOS.
    var folder: String
    /// In a target triple, and in the names of module files.
    var os, moduleOS: String
    /// The version of the SDK: any that is newer than the minimum.
    var version: String

    static let all = [
        System(name: "macos", folder: "macosx", os: "macosx", moduleOS: "macos", version: "15.5"),
        System(name: "ios", folder: "iphoneos", os: "ios", moduleOS: "ios", version: "18.5"),
        System(name: "tvos", folder: "appletvos", os: "tvos", moduleOS: "tvos", version: "18.5"),
        System(name: "watchos", folder: "watchos", os: "watchos", moduleOS: "watchos", version: "11.5"),
        System(name: "visionos", folder: "xros", os: "xros", moduleOS: "xros", version: "2.5"),
    ]
}

// MARK: - Programs

struct Output: Sendable {
    var status: Int32
    var out, err: String
}

/// Runs a program to completion. Its output goes through files: pipes would need a reader meanwhile.
func run(_ command: [String], environment: [String: String] = [:]) async throws -> Output {
    let folder = "\(build)/output/\(UUID())"
    try makeFolder(folder)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = command
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    for name in ["out", "err"] { try write("", to: "\(folder)/\(name)") }
    process.standardOutput = FileHandle(forWritingAtPath: "\(folder)/out")
    process.standardError = FileHandle(forWritingAtPath: "\(folder)/err")
    try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
        process.terminationHandler = { _ in ended.resume() }
        do { try process.run() } catch { ended.resume(throwing: error) }
    }
    return Output(status: process.terminationStatus, out: try read("\(folder)/out"), err: try read("\(folder)/err"))
}

/// Runs a program that must succeed, and returns its output.
@discardableResult
func need(_ command: [String], environment: [String: String] = [:]) async throws -> String {
    let done = try await run(command, environment: environment)
    guard done.status == 0 else { throw Failed("\(command.prefix(4).joined(separator: " "))…\n\(done.out)\(done.err)") }
    return done.out
}

/// The toolchain that `swift` is of.
struct Toolchain: Sendable {
    var folder, version: String

    var frontend: [String] { ["nice", "-n", "10", "\(folder)/bin/swift-frontend"] }

    static func find() async throws -> Toolchain {
        struct Info: Decodable {
            struct Paths: Decodable { var runtimeResourcePath: String }
            var compilerVersion: String
            var paths: Paths
        }
        let info = try JSONDecoder().decode(
            Info.self, from: Data(try await need(["swiftc", "-print-target-info"]).utf8))
        return Toolchain(
            folder: info.paths.runtimeResourcePath.removingSuffix("/lib/swift"), version: info.compilerVersion)
    }
}

// MARK: - Files

func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

func makeFolder(_ path: String) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
}

func read(_ path: String) throws -> String {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { throw Failed("\(path) cannot be read") }
    return text
}

/// Writes a file unless its contents are the same: a rewritten file would be newer than its results.
func write(_ text: String, to path: String) throws {
    if (try? String(contentsOfFile: path, encoding: .utf8)) == text { return }
    try makeFolder(path.folder)
    try text.write(toFile: path, atomically: true, encoding: .utf8)
}

/// The files in a folder and all below that end so, sorted.
func files(in folder: String, _ endings: String...) -> [String] {
    let names = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
    return names.filter { name in endings.contains { name.hasSuffix($0) } }.sorted().map { "\(folder)/\($0)" }
}

/// Detects changes; not a cryptographic digest.
struct Fingerprint {
    private var state: UInt64 = 0xCBF2_9CE4_8422_2325

    var text: String { String(state, radix: 16) }

    mutating func add(_ text: some StringProtocol) {
        for byte in text.utf8 { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        state = (state ^ 0xFF) &* 0x100_0000_01B3
    }

    mutating func add(files: [String]) throws {
        for file in files {
            add(file)
            add(try read(file))
        }
    }
}

// MARK: - Text

extension String {
    var folder: String { (self as NSString).deletingLastPathComponent }
    var lastPart: String { (self as NSString).lastPathComponent }
    var stem: String { (lastPart as NSString).deletingPathExtension }
    var trimmed: String { trimmingCharacters(in: .whitespaces) }

    var fromRoot: String { hasPrefix("\(root)/") ? String(dropFirst(root.count + 1)) : self }

    func removingSuffix(_ suffix: String) -> String { hasSuffix(suffix) ? String(dropLast(suffix.count)) : self }

    func replacing(pattern: String, with template: String) -> String {
        replacingOccurrences(of: pattern, with: template, options: .regularExpression)
    }

    func matches(pattern: String) -> Bool { range(of: pattern, options: .regularExpression) != nil }
}
