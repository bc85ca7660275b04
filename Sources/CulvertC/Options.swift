// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import TunnelIO
import WireGuardDevice

/// A caller's options, checked.
struct Options {
    let descriptor: PacketDescriptor
    let layout: LaneLayout
    let budget: MemoryBudget
    let mark: UInt32?
    let lookupTimeout: Duration
    let logLevel: culvert_log_level
    let sink: LogSink?

    @unsafe
    init(_ options: culvert_options) throws(Failure) {
        unsafe logLevel = options.log_level
        let (size, threads) = unsafe (options.size, options.threads)
        let (memory, peers, mark, timeout) = unsafe (
            options.memory, options.peers, options.mark, options.lookup_timeout
        )
        let known = unsafe MemoryLayout<culvert_options>.size
        guard size == known else {
            throw Failure(
                CULVERT_INVALID_ARGUMENT,
                "options have the size \(size), not \(known): "
                    + "fill them in with culvert_options_init first")
        }
        descriptor = try unsafe PacketDescriptor(options.descriptor, format: options.format, mtu: options.mtu)
        switch threads {
        case 0: layout = .automatic
        case 1: layout = .single
        case 2: layout = .perDirection
        default: throw Failure(CULVERT_INVALID_ARGUMENT, "threads are 1 or 2, or 0 for either, not \(threads)")
        }
        guard (0...CULVERT_LOG_VERBOSE).contains(Int(logLevel)) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is no log level \(logLevel)")
        }
        budget = try Self.budget(bytes: memory, peers: peers)
        self.mark = mark == 0 ? nil : mark
        lookupTimeout = .milliseconds(timeout == 0 ? 10_000 : Int64(timeout))
        if let log = unsafe options.log, logLevel != CULVERT_LOG_NONE {
            sink = unsafe LogSink(log, options.log_context)
        } else {
            sink = nil
        }
    }

    private static func budget(bytes: UInt64, peers: UInt32) throws(Failure) -> MemoryBudget {
        if bytes == 0, peers == 0 { return .extension }
        do throws(MemoryBudgetError) {
            return try .custom(
                bytes: bytes == 0 ? 8 << 20 : Int(clamping: bytes), peers: peers == 0 ? 240 : Int(clamping: peers),
                lanes: 2)
        } catch {
            throw Failure(CULVERT_INVALID_ARGUMENT, "\(error)")
        }
    }
}
