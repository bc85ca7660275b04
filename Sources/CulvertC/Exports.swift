// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// swift-format-ignore-file: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation

public import CCulvert
import TunnelIO
import TunnelSystem

// The names are C names. culvert.h documents each function, and the compiler checks these against it.

@c @implementation
public func culvert_version() -> UnsafePointer<CChar> {
    unsafe UnsafeRawPointer(CulvertVersion.text.utf8Start).assumingMemoryBound(to: CChar.self)
}

@c @implementation
public func culvert_options_init(_ options: UnsafeMutablePointer<culvert_options>) {
    var defaults = unsafe culvert_options()
    unsafe defaults.size = MemoryLayout<culvert_options>.size
    unsafe defaults.descriptor = -1
    unsafe defaults.log_level = culvert_log_level(CULVERT_LOG_ERROR)
    unsafe options.pointee = defaults
}

@c @implementation
public func culvert_status_init(_ status: UnsafeMutablePointer<culvert_status>) {
    var empty = culvert_status()
    empty.size = MemoryLayout<culvert_status>.size
    unsafe status.pointee = empty
}

// MARK: - Life

@c @implementation
public func culvert_start(
    _ options: UnsafePointer<culvert_options>, _ configuration: UnsafePointer<CChar>,
    _ tunnel: UnsafeMutablePointer<OpaquePointer?>?, _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe tunnel?.pointee = nil
    return unsafe reporting(to: error) { () throws(Failure) in
        guard let tunnel = unsafe tunnel else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is nowhere to put the tunnel: it could never be ended")
        }
        let started = unsafe try start(options, configuration)
        unsafe tunnel.pointee = handle(retaining: started)
    }
}

@c @implementation
public func culvert_run(
    _ options: UnsafePointer<culvert_options>, _ configuration: UnsafePointer<CChar>,
    _ tunnel: UnsafeMutablePointer<OpaquePointer?>?, _ end: UnsafeMutablePointer<culvert_end>?,
    _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe tunnel?.pointee = nil
    return unsafe reporting(to: error) { () throws(Failure) in
        let started = unsafe try start(options, configuration)
        if let tunnel = unsafe tunnel { unsafe tunnel.pointee = handle(retaining: started) }
        let reason = started.wait(until: .max)
        if let end = unsafe end, let reason { unsafe end.pointee = reason }
        if unsafe tunnel == nil { started.finish() }
    }
}

@c @implementation
public func culvert_stop(_ tunnel: OpaquePointer) -> culvert_result {
    unsafe outsideOfCallback(tunnel) { $0.stop() }
}

@c @implementation
public func culvert_wait(
    _ tunnel: OpaquePointer, _ timeout: Int64, _ end: UnsafeMutablePointer<culvert_end>?
) -> culvert_result {
    let tunnel = unsafe object(tunnel)
    guard !tunnel.isInCallback else { return culvert_result(CULVERT_IN_CALLBACK) }
    let deadline = timeout < 0 ? Int64.max : LaneClock.deadline(after: .milliseconds(timeout))
    guard let reason = tunnel.wait(until: deadline) else { return culvert_result(CULVERT_TIMED_OUT) }
    if let end = unsafe end { unsafe end.pointee = reason }
    return culvert_result(CULVERT_OK)
}

@c @implementation
public func culvert_free(_ tunnel: OpaquePointer?) -> culvert_result {
    guard let tunnel = unsafe tunnel else { return culvert_result(CULVERT_OK) }
    let result = unsafe outsideOfCallback(tunnel) { $0.finish() }
    if result == CULVERT_OK { unsafe Unmanaged<Tunnel>.fromOpaque(UnsafeRawPointer(tunnel)).release() }
    return result
}

// MARK: - While it runs

@c @implementation
public func culvert_get_status(
    _ tunnel: OpaquePointer, _ status: UnsafeMutablePointer<culvert_status>
) -> culvert_result {
    guard unsafe status.pointee.size == MemoryLayout<culvert_status>.size else {
        return culvert_result(CULVERT_INVALID_ARGUMENT)
    }
    unsafe object(tunnel).fill(&status.pointee)
    return culvert_result(CULVERT_OK)
}

@c @implementation
public func culvert_get_peers(
    _ tunnel: OpaquePointer, _ peers: UnsafeMutablePointer<culvert_peer>?, _ capacity: Int,
    _ count: UnsafeMutablePointer<Int>
) -> culvert_result {
    let found = unsafe object(tunnel).peers
    unsafe count.pointee = found.count
    guard let peers = unsafe peers else {
        return culvert_result(capacity == 0 ? CULVERT_OK : CULVERT_INVALID_ARGUMENT)
    }
    for (index, peer) in found.prefix(max(capacity, 0)).enumerated() { unsafe peers[index] = peer }
    return culvert_result(CULVERT_OK)
}

@c @implementation
public func culvert_configure(
    _ tunnel: OpaquePointer, _ configuration: UnsafePointer<CChar>, _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe reporting(to: error) { () throws(Failure) in
        try unsafe object(tunnel).configure(text(configuration))
    }
}

@c @implementation
public func culvert_rebind(_ tunnel: OpaquePointer, _ error: UnsafeMutablePointer<culvert_error>?) -> culvert_result {
    unsafe reporting(to: error) { () throws(Failure) in try unsafe object(tunnel).rebind() }
}

// MARK: - Between C and Swift

@unsafe
private func start(
    _ options: UnsafePointer<culvert_options>, _ configuration: UnsafePointer<CChar>
) throws(Failure) -> Tunnel {
    try unsafe Tunnel(Options(options.pointee), configuration: text(configuration))
}

@unsafe
private func text(_ bytes: UnsafePointer<CChar>) throws(Failure) -> String {
    guard let text = unsafe String(validatingCString: bytes) else {
        throw Failure(CULVERT_INVALID_CONFIGURATION, "the configuration is not UTF-8")
    }
    return text
}

private func handle(retaining tunnel: Tunnel) -> OpaquePointer {
    unsafe OpaquePointer(Unmanaged.passRetained(tunnel).toOpaque())
}

@unsafe
private func object(_ tunnel: OpaquePointer) -> Tunnel {
    unsafe Unmanaged<Tunnel>.fromOpaque(UnsafeRawPointer(tunnel)).takeUnretainedValue()
}

/// Does what would wait for the log function, unless that is where the caller is.
@unsafe
private func outsideOfCallback(_ tunnel: OpaquePointer, _ body: (Tunnel) -> Void) -> culvert_result {
    let tunnel = unsafe object(tunnel)
    guard !tunnel.isInCallback else { return culvert_result(CULVERT_IN_CALLBACK) }
    body(tunnel)
    return culvert_result(CULVERT_OK)
}

@unsafe
func reporting(
    to error: UnsafeMutablePointer<culvert_error>?, _ body: () throws(Failure) -> Void
) -> culvert_result {
    do throws(Failure) {
        try body()
    } catch let failure {
        return unsafe failure.report(error)
    }
    if let error = unsafe error { unsafe error.pointee = culvert_error() }
    return culvert_result(CULVERT_OK)
}
