// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Which work a tunnel hands to the system in large pieces. Only Linux has any of this; where a kernel lacks one, it is
/// found out and done without.
///
/// A switch is off when the environment variable of its name is `0`; see ``environment``.
public struct OffloadOptions: Hashable, Sendable {
    /// Equal datagrams to one endpoint are sent as one and cut by the system (`CULVERT_UDP_GSO`).
    public var udpSegmentation = true
    /// Datagrams are received joined, and cut here (`CULVERT_UDP_GRO`).
    public var udpCoalescing = true
    /// TCP packets are read from the device joined, and cut here (`CULVERT_TUN_TSO`).
    public var tunTCPSegmentation = true
    /// UDP packets are read from the device joined, and cut here (`CULVERT_TUN_USO`).
    public var tunUDPSegmentation = true
    /// TCP packets of one flow are joined before they are written to the device (`CULVERT_TUN_TCP_GRO`).
    public var tunTCPCoalescing = true
    /// UDP packets of one flow are joined before they are written to the device (`CULVERT_TUN_UDP_GRO`).
    public var tunUDPCoalescing = true

    /// Everything on.
    public init() {}

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

    /// Everything on but what this process's environment turns off.
    public static let environment: OffloadOptions = {
        OffloadOptions { name in
            guard let value = unsafe getenv(name) else { return nil }
            return unsafe String(cString: value)
        }
    }()

    /// Everything on but what `variable`, given a name, has `0` for.
    package init(variable: (String) -> String?) {
        udpSegmentation = variable("CULVERT_UDP_GSO") != "0"
        udpCoalescing = variable("CULVERT_UDP_GRO") != "0"
        tunTCPSegmentation = variable("CULVERT_TUN_TSO") != "0"
        tunUDPSegmentation = variable("CULVERT_TUN_USO") != "0"
        tunTCPCoalescing = variable("CULVERT_TUN_TCP_GRO") != "0"
        tunUDPCoalescing = variable("CULVERT_TUN_UDP_GRO") != "0"
    }

    /// Whether a TUN device has anything to do with headers that describe joined packets.
    var wantsVirtioHeader: Bool {
        tunTCPSegmentation || tunUDPSegmentation || tunTCPCoalescing || tunUDPCoalescing
    }
}
