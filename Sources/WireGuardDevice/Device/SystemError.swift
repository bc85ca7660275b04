// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The system's error numbers, in words.
enum SystemError {
    /// What the system calls this error number.
    static func text(_ number: Int32) -> String {
        guard let words = unsafe strerror(number) else { return "errno \(number)" }
        return "\(unsafe String(cString: words)) (errno \(number))"
    }
}
