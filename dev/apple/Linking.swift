// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The symbols of a Mac's own libraries: Swift's runtime, and symbols of Swift's and Apple's modules (`s` and `S` are Swift's
/// own).
private let apples =
    "^(_?_swift_|_\\$s(s|S|15Synchronization|10Foundation|16FoundationValues|9CryptoKit|12_Concurrency|6Darwin|"
    + "18_StringProcessing)|_\\$[sS]|___swift_|__swift)"

/// Links the dynamic library of a product from object code, and says what would be missing in it on a Mac.
func missingSymbols(_ product: String, of check: Check, floor: String) async throws -> Int {
    let names = Plan.reach([product], check.order.filter { $0.kind == .ours })
    let objects = check.order.filter { $0.kind == .ours && names.contains($0.name) }.flatMap { module in
        files(in: check.out, ".o").filter { $0.stem == module.identifier || $0.lastPart.hasPrefix("\(module.name)-") }
    }
    let library = "\(check.out)/libculvert-c.dylib"
    // Zig's linker, since the toolchain's does not link for macOS. In its place of the package it finds its headers.
    let cache = "\(build)/zig-cache"
    try await need(
        [
            "nice", "-n", "10", "\(ziglang)/ziglang/zig", "cc", "-target", "aarch64-macos.\(floor)", "-shared",
            "-Wl,-undefined,dynamic_lookup", "-o", library,
        ] + objects, environment: ["ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache])

    let stub = try read("\(check.sdk.sysroot)/usr/lib/libSystem.tbd")
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

func grouped(_ number: Int) -> String {
    "\(number)".replacing(pattern: "(?<=\\d)(?=(\\d{3})+$)", with: ",")
}
