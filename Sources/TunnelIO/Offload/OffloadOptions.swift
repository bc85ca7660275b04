// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The offloads that a tunnel uses: work that the system does on large buffers. Only Linux has them. If a kernel lacks an
/// offload, the tunnel detects that and works without it.
///
/// A switch is off if the environment variable with its name is `0`, and on if it is `1`; see ``environment``. By default all
/// are on, except those that the running kernel is known to do wrong.
public struct OffloadOptions: Hashable, Sendable {
    /// Whether datagrams of equal length to one endpoint are sent joined and split by the system (`CULVERT_UDP_GSO`).
    /// By default off on Linux 7.0 to 7.1.4, which lose such datagrams.
    public var udpSegmentation: Bool
    /// Whether datagrams are received joined and split by this process (`CULVERT_UDP_GRO`). By default off before Linux
    /// 5.12.
    public var udpCoalescing: Bool
    /// Whether TCP packets are read from the device joined and split by this process (`CULVERT_TUN_TSO`).
    public var tunTCPSegmentation = true
    /// Whether UDP packets are read from the device joined and split by this process (`CULVERT_TUN_USO`).
    public var tunUDPSegmentation = true
    /// Whether TCP packets of one flow are joined before they are written to the device (`CULVERT_TUN_TCP_GRO`).
    public var tunTCPCoalescing = true
    /// Whether UDP packets of one flow are joined before they are written to the device (`CULVERT_TUN_UDP_GRO`).
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

    /// The options that this process's environment specifies.
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

    /// Whether a TUN device needs virtio headers, which describe joined packets.
    var wantsVirtioHeader: Bool {
        tunTCPSegmentation || tunUDPSegmentation || tunTCPCoalescing || tunUDPCoalescing
    }
}
