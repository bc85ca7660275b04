// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Reports a broken invariant and ends the process, upon which libFuzzer keeps the input.
func finding(_ message: @autoclosure () -> String) -> Never {
    let bytes = Array("FINDING: \(message())\n".utf8)
    _ = unsafe write(2, bytes, bytes.count)
    // A Swift trap is not a signal that libFuzzer handles on every architecture; this one is.
    abort()
}

/// Ends the process with `message` unless `condition` holds.
@inline(__always)
func require(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { finding(message()) }
}
