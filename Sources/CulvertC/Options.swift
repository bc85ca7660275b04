// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import TunnelIO
import WireGuardDevice

/// A caller's options, checked.
struct Options {
    let descriptor: Int32
    let format: culvert_format
    let mtu: Int?
    let layout: LaneLayout
    let budget: MemoryBudget
    let mark: UInt32?
    let lookupTimeout: Duration
    let logLevel: culvert_log_level
    let sink: LogSink?

    private static let defaultMTU = 1420

    @unsafe
    init(_ options: culvert_options) throws(Failure) {
        unsafe descriptor = options.descriptor
        unsafe format = options.format
        unsafe logLevel = options.log_level
        let (size, mtu, threads) = unsafe (options.size, options.mtu, options.threads)
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
        guard (0...CULVERT_FORMAT_PACKETS).contains(Int(format)) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is no format \(format)")
        }
        guard mtu == 0 || (576...65_535).contains(mtu) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "the MTU \(mtu) is not one of 576 to 65535, or 0")
        }
        switch threads {
        case 0: layout = .automatic
        case 1: layout = .single
        case 2: layout = .perDirection
        default: throw Failure(CULVERT_INVALID_ARGUMENT, "threads are 1 or 2, or 0 for either, not \(threads)")
        }
        guard (0...CULVERT_LOG_VERBOSE).contains(Int(logLevel)) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is no log level \(logLevel)")
        }
        self.mtu = mtu == 0 ? nil : Int(mtu)
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

    /// The device on the descriptor.
    /// - Parameter configured: the MTU of the configuration, which counts where there is no interface that has one.
    func openDevice(configuredMTU configured: Int?) throws(Failure) -> any TunDevice {
        do throws(TunnelIOError) {
            switch Int(format) {
            case CULVERT_FORMAT_INTERFACE: return try openInterface()
            case CULVERT_FORMAT_PACKETS: return try openSocket(configured)
            default: return try PacketSocket.isSocketOfMessages(descriptor) ? openSocket(configured) : openInterface()
            }
        } catch {
            throw Failure(error)
        }
    }

    private func openInterface() throws(TunnelIOError) -> any TunDevice {
        let tun = try SystemTun(borrowing: descriptor)
        do throws(TunnelIOError) {
            if let mtu, try tun.currentMTU() != mtu { try tun.setMTU(mtu) }
        } catch {
            tun.close()
            throw error
        }
        return tun
    }

    private func openSocket(_ configured: Int?) throws(TunnelIOError) -> any TunDevice {
        try PacketSocket(borrowing: descriptor, mtu: mtu ?? configured ?? Self.defaultMTU)
    }
}
