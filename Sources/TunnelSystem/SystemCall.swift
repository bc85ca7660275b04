// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    package import Glibc
#elseif canImport(Musl)
    package import Musl
#elseif canImport(Darwin)
    package import Darwin
#endif

/// System calls, called again while a signal interrupts them.
package enum SystemCall {
    /// The call's result; negative when it failed, with the reason in `errno`.
    @inlinable
    package static func retry<Result: FixedWidthInteger & SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result >= 0 || errno != EINTR { return result }
        }
    }

    /// The call's result.
    /// - Throws: what `failure` makes of the system's error number when it failed.
    @inlinable
    @discardableResult
    package static func check<Result: FixedWidthInteger & SignedInteger, Failure: Error>(
        _ call: () -> Result, or failure: (_ errno: Int32) -> Failure
    ) throws(Failure) -> Result {
        let result = retry(call)
        guard result >= 0 else { throw failure(errno) }
        return result
    }

    /// The call's result.
    /// - Throws: the system's reason, with what was tried.
    @inlinable
    @discardableResult
    package static func check<Result: FixedWidthInteger & SignedInteger>(
        _ operation: @autoclosure () -> String, _ call: () -> Result
    ) throws(SystemError) -> Result {
        try check(call) { SystemError(operation(), errno: $0) }
    }

    // MARK: - Where a method of the same name hides the C library's

    /// Reads into `bytes`.
    /// - Returns: the number of bytes, zero at the end; negative when it failed, with the reason in `errno`.
    package static func read(_ descriptor: Int32, into bytes: UnsafeMutableRawBufferPointer) -> Int {
        retry { unsafe libraryRead(descriptor, bytes.baseAddress, bytes.count) }
    }

    /// Writes `bytes`, or some of them.
    /// - Returns: the number of bytes; negative when it failed, with the reason in `errno`.
    package static func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        retry { unsafe libraryWrite(descriptor, bytes.baseAddress, bytes.count) }
    }

    /// Writes all of `bytes`.
    /// - Returns: false when some could not be written, with the reason in `errno`.
    @discardableResult
    package static func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        unsafe bytes.withUnsafeBytes { raw in
            var rest = unsafe raw[...]
            while unsafe !rest.isEmpty {
                let count = unsafe write(descriptor, UnsafeRawBufferPointer(rebasing: rest))
                guard count > 0 else { return false }
                unsafe rest = rest.dropFirst(count)
            }
            return true
        }
    }

    /// Everything that can be read up to the end; nil when reading fails, or there are more bytes than `limit` (`EFBIG`),
    /// with the reason in `errno`.
    package static func readAll(_ descriptor: Int32, limit: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit + 1, 65_536))
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, into: $0) }
            guard count > 0 else { return count == 0 ? bytes : nil }
            guard bytes.count + count <= limit else {
                errno = EFBIG
                return nil
            }
            bytes += chunk[..<count]
        }
    }

    /// Opens the file at `path`, closed on exec.
    /// - Returns: a descriptor; negative when it failed, with the reason in `errno`.
    package static func open(_ path: String, _ flags: Int32, mode: mode_t = 0o600) -> Int32 {
        retry { libraryOpen(path, flags | O_CLOEXEC, mode) }
    }

    /// Closes a descriptor. Not repeated after EINTR: the number is free by then and may be another thread's already.
    package static func close(_ descriptor: Int32) {
        _ = libraryClose(descriptor)
    }
}

private func libraryRead(_ descriptor: Int32, _ start: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    unsafe read(descriptor, start, count)
}

private func libraryWrite(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
    unsafe write(descriptor, start, count)
}

private func libraryOpen(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 { unsafe open(path, flags, mode) }

private func libraryClose(_ descriptor: Int32) -> Int32 { close(descriptor) }
