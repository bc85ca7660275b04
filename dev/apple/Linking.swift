// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The symbols of a Mac's own libraries: Swift's runtime, and symbols of Swift's and Apple's modules (`s` and `S` are Swift's
/// own).
private let apples =
    "^(_?_swift_|_\\$s(s|S|15Synchronization|10Foundation|16FoundationValues|9CryptoKit|12_Concurrency|6Darwin|"
    + "18_StringProcessing)|_\\$[sS]|___swift_|__swift)"

/// Links the dynamic library of a product from object code, and reports the symbols that would be missing in it on a Mac or a
/// device.
func missingSymbols(_ product: String, of check: Check, floor: String) async throws -> Int {
    let names = Plan.reach([product], check.order.filter { $0.kind == .ours })
    let objects = check.order.filter { $0.kind == .ours && names.contains($0.name) }.flatMap { module in
        files(in: check.out, ".o").filter { $0.stem == module.identifier || $0.lastPart.hasPrefix("\(module.name)-") }
    }
    let library = "\(check.out)/libculvert-c.dylib"
    let stub = try read("\(check.sdk.sysroot)/usr/lib/libSystem.tbd")
    // Zig's linker, since the toolchain's does not link for macOS. In its place of the package it finds its headers.
    let cache = "\(build)/zig-cache"
    try await need(
        [
            "nice", "-n", "10", "\(ziglang)/ziglang/zig", "cc", "-target", "aarch64-\(check.system.name).\(floor)",
            "-shared", "-Wl,-undefined,dynamic_lookup", "-o", library,
        ] + objects + ownLibraries(check, stub),
        environment: ["ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache])

    let system = Set(stub.split { !($0.isLetter || $0.isNumber || $0 == "_" || $0 == "$") })
    let nm = "\(check.sdk.toolchain.folder)/bin/llvm-nm"
    let undefined = try await need([nm, "-u", library]).split(separator: "\n").compactMap {
        $0.split(separator: " ").last
    }
    let others = undefined.filter { !system.contains($0) }
    let missing = others.map(String.init).filter { !$0.matches(pattern: apples) }
    let exported = try await need([nm, library]).split(separator: "\n").count { $0.contains(" T _culvert_") }
    let size = try FileManager.default.attributesOfItem(atPath: library)[.size] as? Int ?? 0
    let told = missing.isEmpty ? "ok" : "symbols are missing"
    say(
        "\(check.system.name.padded(8)) \(library.lastPart.padded(24)) \(told.padded(12)) \(objects.count) objects, "
            + "\(grouped(size)) bytes, \(exported) functions for C; undefined: \(undefined.count - others.count) of "
            + "libSystem, \(others.count - missing.count) of Swift and Apple's modules",
        missing.map { "undefined: \($0)" })
    return missing.count
}

/// Returns the linker's arguments for the system's own libraries. Zig has those of macOS only, and cannot build its run-time
/// libraries for other systems: there, the stub of macOS takes the place of the system's.
private func ownLibraries(_ check: Check, _ stub: String) throws -> [String] {
    guard check.system.name != "macos" else { return [] }
    let path = "\(check.out)/libSystem.tbd"
    try write(stub.replacing(pattern: "\\barm64e?-macos\\b", with: "arm64-\(check.system.os)"), to: path)
    return ["-nostdlib", "-fno-sanitize=all", path]
}

func grouped(_ number: Int) -> String {
    "\(number)".replacing(pattern: "(?<=\\d)(?=(\\d{3})+$)", with: ",")
}
