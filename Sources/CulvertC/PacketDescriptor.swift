// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import TunnelIO

/// A caller's descriptor, and how packets lie on it.
struct PacketDescriptor {
    private let number: Int32
    private let format: culvert_format
    private let mtu: Int?

    private static let defaultMTU = 1420

    init(_ number: Int32, format: culvert_format, mtu: UInt32) throws(Failure) {
        guard (0...CULVERT_FORMAT_PACKETS).contains(Int(format)) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is no format \(format)")
        }
        guard mtu == 0 || (576...65_535).contains(mtu) else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "the MTU \(mtu) is not one of 576 to 65535, or 0")
        }
        self.number = number
        self.format = format
        self.mtu = mtu == 0 ? nil : Int(mtu)
    }

    /// Opens the device on the descriptor.
    /// - Parameter configured: The MTU of the configuration, used if no interface has one.
    func open(configuredMTU configured: Int? = nil) throws(Failure) -> any TunDevice {
        do throws(TunnelIOError) {
            switch Int(format) {
            case CULVERT_FORMAT_INTERFACE: return try openInterface()
            case CULVERT_FORMAT_PACKETS: return try openSocket(configured)
            default: return try SocketTun.isSocketOfMessages(number) ? openSocket(configured) : openInterface()
            }
        } catch {
            throw Failure(error)
        }
    }

    private func openInterface() throws(TunnelIOError) -> any TunDevice {
        let tun = try SystemTun(borrowing: number)
        do throws(TunnelIOError) {
            if let mtu, try tun.currentMTU() != mtu { try tun.setMTU(mtu) }
        } catch {
            tun.close()
            throw error
        }
        return tun
    }

    private func openSocket(_ configured: Int?) throws(TunnelIOError) -> any TunDevice {
        try SocketTun(borrowing: number, mtu: mtu ?? configured ?? Self.defaultMTU)
    }
}
