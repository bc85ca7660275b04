// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase
// swift-format-ignore-file: NeverUseImplicitlyUnwrappedOptionals

// Apple's Swift overlay of Darwin, as far as the package and Swift's own modules need it: what the importer of C cannot
// bring over, which is macros with casts or sizes, variadic functions, and what the headers take from Swift. The headers
// themselves are Apple's. For Apple's targets only: nothing of it is executed.

@_exported import Darwin
import SwiftOverlayShims
import SwiftShims

public var errno: Int32 {
    get { unsafe __error().pointee }
    set { unsafe __error().pointee = newValue }
}

public var noErr: OSStatus { 0 }

public var MAP_FAILED: UnsafeMutableRawPointer! { unsafe UnsafeMutableRawPointer(bitPattern: -1) }

/// `Boolean` of MacTypes.h.
@frozen
public struct DarwinBoolean: ExpressibleByBooleanLiteral, Equatable, Sendable {
    var byte: UInt8
    public init(_ value: Bool) { byte = value ? 1 : 0 }
    @_transparent public init(booleanLiteral value: Bool) { self.init(value) }
    public var boolValue: Bool { byte != 0 }
}

public func _convertBoolToDarwinBoolean(_ value: Bool) -> DarwinBoolean { DarwinBoolean(value) }

public func _convertDarwinBooleanToBool(_ value: DarwinBoolean) -> Bool { value.boolValue }

// MARK: - stdio.h

public var stdin: UnsafeMutablePointer<FILE> {
    get { unsafe __stdinp }
    set { unsafe __stdinp = newValue }
}

public var stdout: UnsafeMutablePointer<FILE> {
    get { unsafe __stdoutp }
    set { unsafe __stdoutp = newValue }
}

public var stderr: UnsafeMutablePointer<FILE> {
    get { unsafe __stderrp }
    set { unsafe __stderrp = newValue }
}

// MARK: - Variadic functions: fcntl.h, sys/ioctl.h

public func open(_ path: UnsafePointer<CChar>, _ oflag: Int32) -> Int32 { unsafe _swift_stdlib_open(path, oflag, 0) }

public func open(_ path: UnsafePointer<CChar>, _ oflag: Int32, _ mode: mode_t) -> Int32 {
    unsafe _swift_stdlib_open(path, oflag, mode)
}

public func openat(_ fd: Int32, _ path: UnsafePointer<CChar>, _ oflag: Int32) -> Int32 {
    unsafe _swift_stdlib_openat(fd, path, oflag, 0)
}

public func openat(_ fd: Int32, _ path: UnsafePointer<CChar>, _ oflag: Int32, _ mode: mode_t) -> Int32 {
    unsafe _swift_stdlib_openat(fd, path, oflag, mode)
}

public func fcntl(_ fd: Int32, _ cmd: Int32) -> Int32 { _swift_stdlib_fcntl(fd, cmd, 0) }

public func fcntl(_ fd: Int32, _ cmd: Int32, _ value: Int32) -> Int32 { _swift_stdlib_fcntl(fd, cmd, value) }

public func fcntl(_ fd: Int32, _ cmd: Int32, _ ptr: UnsafeMutableRawPointer) -> Int32 {
    unsafe _swift_stdlib_fcntlPtr(fd, cmd, ptr)
}

public func ioctl(_ fd: CInt, _ request: UInt) -> CInt { _swift_stdlib_ioctl(fd, request, 0) }

public func ioctl(_ fd: CInt, _ request: UInt, _ value: CInt) -> CInt { _swift_stdlib_ioctl(fd, request, value) }

public func ioctl(_ fd: CInt, _ request: UInt, _ ptr: UnsafeMutableRawPointer) -> CInt {
    unsafe _swift_stdlib_ioctlPtr(fd, request, ptr)
}

/// `_IOR('t', 104, struct winsize)`.
public var TIOCGWINSZ: UInt { 0x4008_7468 }

// MARK: - unistd.h, signal.h, crt_externs.h

@available(*, unavailable, message: "Please use threads or posix_spawn*()")
public func fork() -> Int32 { -1 }

@available(*, unavailable, message: "Please use threads or posix_spawn*()")
public func vfork() -> Int32 { -1 }

public var SIG_DFL: sig_t? { nil }
public var SIG_IGN: sig_t { unsafe unsafeBitCast(1, to: sig_t.self) }
public var SIG_ERR: sig_t { unsafe unsafeBitCast(-1, to: sig_t.self) }
public var SIG_HOLD: sig_t { unsafe unsafeBitCast(5, to: sig_t.self) }

public var environ: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
    unsafe _NSGetEnviron().pointee ?? UnsafeMutablePointer.allocate(capacity: 1)
}

// MARK: - time.h: macros that stand for constants of an enumeration

public var CLOCK_REALTIME: clockid_t { _CLOCK_REALTIME }
public var CLOCK_MONOTONIC: clockid_t { _CLOCK_MONOTONIC }
public var CLOCK_MONOTONIC_RAW: clockid_t { _CLOCK_MONOTONIC_RAW }
public var CLOCK_MONOTONIC_RAW_APPROX: clockid_t { _CLOCK_MONOTONIC_RAW_APPROX }
public var CLOCK_UPTIME_RAW: clockid_t { _CLOCK_UPTIME_RAW }
public var CLOCK_UPTIME_RAW_APPROX: clockid_t { _CLOCK_UPTIME_RAW_APPROX }
public var CLOCK_PROCESS_CPUTIME_ID: clockid_t { _CLOCK_PROCESS_CPUTIME_ID }
public var CLOCK_THREAD_CPUTIME_ID: clockid_t { _CLOCK_THREAD_CPUTIME_ID }

// MARK: - sys/stat.h: macros with casts

public var S_IFMT: mode_t { 0o170000 }
public var S_IFIFO: mode_t { 0o010000 }
public var S_IFCHR: mode_t { 0o020000 }
public var S_IFDIR: mode_t { 0o040000 }
public var S_IFBLK: mode_t { 0o060000 }
public var S_IFREG: mode_t { 0o100000 }
public var S_IFLNK: mode_t { 0o120000 }
public var S_IFSOCK: mode_t { 0o140000 }
public var S_IFWHT: mode_t { 0o160000 }
public var S_IRWXU: mode_t { 0o000700 }
public var S_IRUSR: mode_t { 0o000400 }
public var S_IWUSR: mode_t { 0o000200 }
public var S_IXUSR: mode_t { 0o000100 }
public var S_IRWXG: mode_t { 0o000070 }
public var S_IRGRP: mode_t { 0o000040 }
public var S_IWGRP: mode_t { 0o000020 }
public var S_IXGRP: mode_t { 0o000010 }
public var S_IRWXO: mode_t { 0o000007 }
public var S_IROTH: mode_t { 0o000004 }
public var S_IWOTH: mode_t { 0o000002 }
public var S_IXOTH: mode_t { 0o000001 }
public var S_ISUID: mode_t { 0o004000 }
public var S_ISGID: mode_t { 0o002000 }
public var S_ISVTX: mode_t { 0o001000 }
