// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The offloads that a tunnel uses: work that the system does on large buffers. Only Linux has them. If a kernel lacks an
/// offload, the tunnel detects that and works without it.
///
/// A switch is off if the environment variable with its name is `0`, and on if it is `1`; see ``environment``. By default all
/// are on, except those that the running kernel is known to do wrong.
public struct OffloadOptions: Hashable, Sendable {
    /// Equal datagrams to one endpoint are sent as one and cut by the system (`CULVERT_UDP_GSO`). Off by itself on Linux
    /// 7.0 to 7.1.4, which lose datagrams by it.
    public var udpSegmentation: Bool
    /// Datagrams are received joined, and cut here (`CULVERT_UDP_GRO`). Off by itself before Linux 5.12.
    public var udpCoalescing: Bool
    /// TCP packets are read from the device joined, and cut here (`CULVERT_TUN_TSO`).
    public var tunTCPSegmentation = true
    /// UDP packets are read from the device joined, and cut here (`CULVERT_TUN_USO`).
    public var tunUDPSegmentation = true
    /// TCP packets of one flow are joined before they are written to the device (`CULVERT_TUN_TCP_GRO`).
    public var tunTCPCoalescing = true
    /// UDP packets of one flow are joined before they are written to the device (`CULVERT_TUN_UDP_GRO`).
    public var tunUDPCoalescing = true

    /// All offloads, except those that the running kernel is known to do wrong.
    public init() {
        self.init(kernel: .running) { _ in nil }
    }

    /// Everything off.
    public static let none: OffloadOptions = {
        var options = OffloadOptions()
        options.udpSegmentation = false
        options.udpCoalescing = false
        options.tunTCPSegmentation = false
        options.tunUDPSegmentation = false
        options.tunTCPCoalescing = false
        options.tunUDPCoalescing = false
        return options
    }()

    /// As this process's environment says.
    public static let environment: OffloadOptions = {
        OffloadOptions(kernel: .running, variable: ProcessEnvironment.value)
    }()

    /// An offload is off if `variable` returns `0` for its name, on for `1`, and otherwise as `kernel` allows.
    package init(kernel: KernelRelease?, variable: (String) -> String?) {
        func isOn(_ name: String, otherwise: Bool = true) -> Bool {
            switch variable(name) {
            case "0": false
            case "1": true
            default: otherwise
            }
        }
        udpSegmentation = isOn("CULVERT_UDP_GSO", otherwise: kernel?.cutsDatagramsRightly ?? true)
        udpCoalescing = isOn("CULVERT_UDP_GRO", otherwise: kernel?.joinsDatagramsRightly ?? true)
        tunTCPSegmentation = isOn("CULVERT_TUN_TSO")
        tunUDPSegmentation = isOn("CULVERT_TUN_USO")
        tunTCPCoalescing = isOn("CULVERT_TUN_TCP_GRO")
        tunUDPCoalescing = isOn("CULVERT_TUN_UDP_GRO")
    }

    /// Whether a TUN device has anything to do with headers that describe joined packets.
    var wantsVirtioHeader: Bool {
        tunTCPSegmentation || tunUDPSegmentation || tunTCPCoalescing || tunUDPCoalescing
    }
}
