// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

// Textual module interfaces of the Linux toolchain, rewritten for an Apple target. They carry Apple's `@available`, so that
// availability is really checked. What differs is little: the C library's name, `Mutex` (futexes there, `os_unfair_lock`
// here) and Float80, which only x86 has.

/// Returns the interface of one of Swift's own modules.
func interface(_ original: String, of module: String, for target: String) throws -> String {
    var lines = original.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    // The flags are on the third line.
    lines[2] =
        lines[2].replacing(pattern: "-target [a-z0-9_]+-unknown-linux-gnu", with: "-target \(target)")
        .replacing(" -static ", with: " ") + " -disable-availability-checking"
    lines.removeAll { $0.trimmed.hasPrefix("@backDeployed(") }
    for (index, line) in lines.enumerated() {
        switch line {
        case "import Glibc": lines[index] = "import Darwin"
        case "@_exported import SwiftGlibc": lines[index] = "@_exported import Darwin"
        default: break
        }
    }
    let text = lines.joined(separator: "\n")
    return switch module {
    case "Swift":
        text.replacing("self = _stdlib_remainderl(self, other)", with: "fatalError()")
            .replacing("self = _stdlib_squareRootl(self)", with: "fatalError()")
            .replacing(
                "public typealias CLongDouble = Swift.Float80", with: "public typealias CLongDouble = Swift.Double")
    case "Synchronization": try withUnfairLock(text)
    default: text
    }
}

/// The handle inside a Mutex, as it is on Apple's systems.
private func withUnfairLock(_ text: String) throws -> String {
    let attribute = "@available\\([^\\n]*\\n@frozen @_staticExclusiveOnly public struct "
    guard let start = text.range(of: attribute + "_MutexHandle", options: .regularExpression),
        let end = text.range(of: attribute + "Mutex<", options: .regularExpression)
    else { throw Failed("Synchronization's interface has no Mutex as this program knows it") }
    let since = "@available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)"
    let inlined = "@_alwaysEmitIntoClient @_transparent"
    let handle = """
        \(since)
        @frozen @_staticExclusiveOnly public struct _MutexHandle : ~Swift.Copyable {
          @usableFromInline internal let value: Synchronization._Cell<Darwin.os_unfair_lock>
          \(inlined) public init() { value = _Cell(os_unfair_lock()) }
        }
        \(since)
        extension Synchronization._MutexHandle {
          \(inlined) internal borrowing func _lock() { os_unfair_lock_lock(value._address) }
          \(inlined) internal borrowing func _tryLock() -> Swift.Bool { os_unfair_lock_trylock(value._address) }
          \(inlined) internal borrowing func _unlock() { os_unfair_lock_unlock(value._address) }
        }

        """
    return text[..<start.lowerBound] + handle + text[end.lowerBound...]
}

/// Converts the output of `swift-synthesize-interface` for FoundationEssentials, which has no interface, into one for any
/// target.
///
/// The omitted parts (predicates, templates of URLs) are not used here, and cannot be parsed from the output.
func essentials(_ printed: String) -> String {
    let text =
        printed.replacing(pattern: "(?m)^\\s*///.*\\n", with: "")
        .replacing(pattern: "(?m)^import .*\\n", with: "")
        .replacing(pattern: "@inlinable |@inline\\(__always\\) |@usableFromInline ", with: "")
        .replacing(pattern: "(internal|private|fileprivate|package)\\(set\\) ", with: "")
        // A printed variable that can be set has no accessors.
        .replacing(
            pattern: "(?m)^([^/\\n{}]*\\b(?:var \\w+|var `\\w+`|subscript)\\b[^{}\\n]*)$", with: "$1 { get set }"
        )
        // An attribute that is not printed, without which a text is a parse input in two ways.
        .replacing(
            pattern: "public init<T, Value>\\(_ value: Value, strategy: T\\)", with: "@_disfavoredOverload $0")
    let wanted = declarations(text).filter {
        !($0.split(separator: "{").first ?? "").contains(/Predicate|URL\.Template|__RangeExpression/)
    }
    let lines = wanted.joined().split(separator: "\n").filter { line in
        !["Predicate", "VariableName", "URL.Template"].contains { line.contains($0) }
            || line.count(of: "{") != line.count(of: "}")
    }
    // An attribute whose declaration was removed.
    return lines.joined(separator: "\n").replacing(pattern: "(?m)^\\s*@available\\([^\\n]*\\)\\n(?=\\})", with: "")
        + "\n"
}

/// Makes a separate module of Foundation's values from the result of `essentials`.
func values(_ essentials: String, module: String, for target: String) -> String {
    """
    // swift-interface-format-version: 1.0
    // swift-compiler-version: Swift version 6.3
    // swift-module-flags: -target \(target) -disable-objc-interop -enable-library-evolution -swift-version 6 \
    -module-name \(module) -disable-availability-checking -enable-experimental-feature Lifetimes
    import Swift
    import _Concurrency
    import _StringProcessing
    import Synchronization
    @_exported import Darwin
    \(essentials)
    """
}

/// Declarations at the top, each with its attributes.
private func declarations(_ text: String) -> [String] {
    var found: [String] = []
    var chunk = ""
    var depth = 0
    for line in text.split(separator: "\n") where !line.allSatisfy(\.isWhitespace) {
        chunk += line + "\n"
        depth += line.count(of: "{") - line.count(of: "}")
        if depth == 0, !line.hasPrefix("@available") {
            found.append(chunk)
            chunk = ""
        }
    }
    return found
}

extension StringProtocol {
    fileprivate func count(of character: UnicodeScalar) -> Int { unicodeScalars.count { $0 == character } }
}
