// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import CTunnelSystem

/// System calls, called again while a signal interrupts them.
// Without `usableFromInline`, the compiler ignores `inlinable` in this type.
@usableFromInline
package enum SystemCall {
    /// The call's result; negative when it failed, with the reason in `errno`.
    @inlinable
    @inline(__always)
    package static func retry<Result: FixedWidthInteger & SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result >= 0 || errno != EINTR { return result }
        }
    }

    /// The call's result.
    /// - Throws: the error that `failure` makes from the system's error number.
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
    /// - Throws: the system's reason, with the failed operation.
    @discardableResult
    package static func check<Result: FixedWidthInteger & SignedInteger>(
        _ operation: @autoclosure () -> String, _ call: () -> Result
    ) throws(SystemError) -> Result {
        try check(call) { SystemError(operation(), errno: $0) }
    }

    // MARK: - Calls that a method of the same name hides

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
    /// - Returns: false if some could not be written, with the reason in `errno`.
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

    /// Everything that can be read up to the end; `nil` if reading fails, or there are more bytes than `limit` (`EFBIG`),
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

    /// The target of a symbolic link; `nil` if it cannot be read, with the reason in `errno`.
    package static func linkTarget(_ path: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe bytes.withUnsafeMutableBytes { raw in
            let buffer = unsafe raw.bindMemory(to: CChar.self)
            guard let start = buffer.baseAddress else { return -1 }
            return unsafe readlink(path, start, buffer.count)
        }
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Lets reads and writes return instead of waiting.
    /// - Returns: false if it failed, with the reason in `errno`.
    package static func setNonBlocking(_ descriptor: Int32) -> Bool {
        let flags = fcntl(descriptor, F_GETFL)
        return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0
    }

    /// Closes a descriptor. Not repeated after EINTR: the number is free by then and may be another thread's already.
    package static func close(_ descriptor: Int32) {
        _ = libraryClose(descriptor)
    }
}

// MARK: - Socket addresses

extension UnixSocket {
    /// Calls `body` with the socket address of `path`. Returns `nil` if a socket address cannot contain the path.
    package static func withAddress<Result>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        guard !path.isEmpty, !path.utf8.contains(0) else { return nil }
        return unsafe withAddress(name: Array(path.utf8), body)
    }

    /// Calls `body` with the socket address of a name: a path or, with a zero byte first, an abstract name of Linux.
    /// Returns `nil` if the name is too long.
    package static func withAddress<Result>(
        name: [UInt8], _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
            guard name.count < raw.count else { return false }
            unsafe raw.copyBytes(from: name)
            return true
        }
        guard fits else { return nil }
        // The length of the address ends an abstract name, instead of a zero byte.
        let room = MemoryLayout.size(ofValue: address.sun_path) - name.count
        let length = MemoryLayout<sockaddr_un>.size - (name.first == 0 ? room : 0)
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe body(address, socklen_t(length))
            }
        }
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
