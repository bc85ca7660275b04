// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The target in `FUZZ_TARGET`. libFuzzer reads the arguments.
private let target: FuzzTarget = {
    let name = unsafe getenv("FUZZ_TARGET").map { unsafe String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        finding("FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue)), not '\(name)'")
    }
    return target
}()

/// libFuzzer brings `main`, and calls this with each input.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> Int32 {
    target.check(unsafe Array(UnsafeBufferPointer(start: data, count: data == nil ? 0 : size)))
    return 0
}
