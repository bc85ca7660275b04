// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization
    package import TunnelSystem

    extension LinuxTun {
        /// An open descriptor, attached to the interface of this name.
        package static func open(
            name: String, framing: TunFraming, kind: Int32, isMultiQueue: Bool = false
        ) throws(TunnelIOError) -> OwnedDescriptor {
            try InterfaceName.validate(name)
            let descriptor = try openDriver(for: name)
            let flags = flags(framing, kind: kind, isMultiQueue: isMultiQueue)
            _ = try attach(descriptor.number, name: name, flags: flags)
            return descriptor
        }

        /// A descriptor that is attached to an interface.
        struct Attached: ~Copyable {
            let descriptor: OwnedDescriptor
            let name: String
            let framing: TunFraming
            let isMultiQueue: Bool
        }

        /// Attaches to the interface of this name, or to one that the system names after this template.
        ///
        /// If the kernel does not accept virtio headers, the device works without them.
        static func attach(name: String, framing: TunFraming, isMultiQueue: Bool) throws(TunnelIOError) -> Attached {
            let descriptor = try openDriver(for: name)
            var framing = framing
            let real: String
            do throws(TunnelIOError) {
                let flags = flags(framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: isMultiQueue)
                real = try attach(descriptor.number, name: name, flags: flags)
            } catch {
                guard framing.hasVirtioHeader, error.errno == EINVAL else { throw error }
                framing.hasVirtioHeader = false
                let flags = flags(framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: isMultiQueue)
                real = try attach(descriptor.number, name: name, flags: flags)
            }
            return Attached(descriptor: descriptor, name: real, framing: framing, isMultiQueue: isMultiQueue)
        }

        private static func flags(_ framing: TunFraming, kind: Int32, isMultiQueue: Bool) -> UInt16 {
            var flags = UInt16(kind)
            if !framing.hasPacketInformation { flags |= UInt16(CTUNNEL_IFF_NO_PI) }
            if framing.hasVirtioHeader { flags |= UInt16(CTUNNEL_IFF_VNET_HDR) }
            if isMultiQueue { flags |= UInt16(CTUNNEL_IFF_MULTI_QUEUE) }
            return flags
        }

        private static func openDriver(for name: String) throws(TunnelIOError) -> OwnedDescriptor {
            let number = SystemCall.retry { openControlDevice() }
            guard number >= 0 else {
                let reason = errno
                let operation =
                    switch reason {
                    case ENOENT, ENODEV, ENXIO: "open /dev/net/tun; load the kernel's tun module"
                    case EACCES, EPERM:
                        "open /dev/net/tun; run as root, or let this user open it: chmod 666 /dev/net/tun"
                    default: "open /dev/net/tun"
                    }
                throw TunnelIOError(.device(name: name, operation: operation), errno: reason)
            }
            return OwnedDescriptor(number)
        }

        /// - Returns: the interface's name.
        private static func attach(_ number: Int32, name: String, flags: UInt16) throws(TunnelIOError) -> String {
            var request = InterfaceRequest(name: name)
            request.flags = flags
            guard request.perform(CTUNNEL_TUNSETIFF, on: number) >= 0 else {
                let reason = errno
                throw attachFailure(name: name, flags: flags, errno: reason)
            }
            return request.name
        }

        private static func attachFailure(name: String, flags: UInt16, errno reason: Int32) -> TunnelIOError {
            let wantsQueues = flags & UInt16(CTUNNEL_IFF_MULTI_QUEUE) != 0
            switch reason {
            case EBUSY:
                return TunnelIOError(
                    .device(name: name, operation: "attach; another process has it open"), errno: EBUSY)
            case EPERM:
                return TunnelIOError(.device(name: name, operation: "create; CAP_NET_ADMIN is needed"), errno: EPERM)
            case EINVAL where TunAttributes.ofInterface(named: name).map { $0.isMultiQueue != wantsQueues } == true:
                return TunnelIOError(
                    .device(
                        name: name,
                        operation: "attach; the interface was made for \(wantsQueues ? "one queue" : "several queues")"),
                    errno: EINVAL)
            case EINVAL where unsafe if_nametoindex(name) != 0, EEXIST:
                // The kernel returns EINVAL if a device of that name is of another kind.
                return TunnelIOError(
                    .device(name: name, operation: "create; the name belongs to an interface of another kind"),
                    errno: EEXIST)
            default:
                return TunnelIOError(.device(name: name, operation: "create"), errno: reason)
            }
        }

        /// Resets the settings of an earlier owner: the offloads and the header length belong to the interface and
        /// outlive an attachment.
        static func configure(_ number: Int32, name: String, framing: TunFraming) throws(TunnelIOError) {
            try SystemCall.check(.device(name: name, operation: "turn offloads off")) {
                ctunnel_tun_ioctl_value(number, CTUNNEL_TUNSETOFFLOAD, 0)
            }
            guard framing.hasVirtioHeader else { return }
            var length = Int32(TunFraming.virtioLength)
            try SystemCall.check(.device(name: name, operation: "set the virtio header's length")) {
                unsafe ctunnel_tun_ioctl_pointer(number, CTUNNEL_TUNSETVNETHDRSZ, &length)
            }
            var isLittleEndian: Int32 = 0
            try SystemCall.check(.device(name: name, operation: "set the virtio header's byte order")) {
                unsafe ctunnel_tun_ioctl_pointer(number, CTUNNEL_TUNSETVNETLE, &isLittleEndian)
            }
        }

        /// The kinds of packets that may be written joined.
        struct Abilities {
            var joinsTCP = false
            var joinsUDP = false
        }

        /// Turns on the requested offloads that the kernel accepts.
        /// - Returns: the kinds of packets that may be written joined.
        static func turnOffloadsOn(
            _ number: Int32, framing: TunFraming, offload: OffloadOptions
        ) -> Abilities {
            guard framing.hasVirtioHeader else { return Abilities() }
            func accepts(_ mask: UInt) -> Bool {
                SystemCall.retry { ctunnel_tun_ioctl_value(number, CTUNNEL_TUNSETOFFLOAD, mask) } >= 0
            }
            let tcp = CTUNNEL_TUN_F_CSUM | CTUNNEL_TUN_F_TSO4 | CTUNNEL_TUN_F_TSO6
            let udp = CTUNNEL_TUN_F_USO4 | CTUNNEL_TUN_F_USO6
            // A kernel that can deliver such frames also accepts them.
            let knowsTCP = accepts(tcp)
            let knowsUDP = knowsTCP && accepts(tcp | udp)
            var mask: UInt = 0
            if knowsTCP, offload.tunTCPSegmentation { mask |= tcp }
            if knowsUDP, offload.tunUDPSegmentation { mask |= CTUNNEL_TUN_F_CSUM | udp }
            if !accepts(mask) { _ = accepts(0) }
            return Abilities(
                joinsTCP: knowsTCP && offload.tunTCPCoalescing, joinsUDP: knowsUDP && offload.tunUDPCoalescing)
        }
    }

    /// Opens a new descriptor of the TUN driver.
    private func openControlDevice() -> Int32 {
        SystemCall.open("/dev/net/tun", O_RDWR | O_NONBLOCK)
    }
#endif
