// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses
    import TunnelSystem

    extension TunBuilder {
        private static let automaticName = "tun%d"
        /// The kernel's own default for TUN devices.
        private static let usualQueueLength = 500

        /// Creates the interface, or attaches to a persistent one, in the network namespace of the calling thread.
        ///
        /// If this throws, an interface that it created is removed; one that existed may be partly changed. The owner of a
        /// persistent interface needs no privileges if the interface already has the requested settings.
        /// - Throws: `.invalidOptions` with every problem; otherwise as ``LinuxTun/init(name:mtu:offload:isMultiQueue:)`` and
        ///   ``LinuxTun/add(_:)``.
        public func build() throws(TunnelIOError) -> LinuxTun {
            try validate()
            let attached = try LinuxTun.attach(
                name: name ?? Self.automaticName,
                framing: TunFraming(
                    hasVirtioHeader: offload.wantsVirtioHeader, hasPacketInformation: hasPacketInformation),
                isMultiQueue: isMultiQueue)
            let number = attached.descriptor.number
            let name = attached.name
            func set(_ request: UInt, to value: UInt32, _ operation: String) throws(TunnelIOError) {
                // By value, not by pointer (linux/drivers/net/tun.c).
                try SystemCall.check(.device(name: name, operation: operation)) {
                    ctunnel_tun_ioctl_value(number, request, UInt(value))
                }
            }
            if let owner { try set(CTUNNEL_TUNSETOWNER, to: owner, "give the interface to user \(owner)") }
            if let group { try set(CTUNNEL_TUNSETGROUP, to: group, "give the interface to group \(group)") }
            let tun = try LinuxTun(attached, mtu: mtu, offload: offload)
            // Only settings that differ are changed: each change needs privileges.
            let length = txQueueLength ?? Self.usualQueueLength
            if try tun.txQueueLength() != length { try tun.setTxQueueLength(length) }
            // Before the addresses, since the kernel removes IPv6 addresses when an interface is taken down.
            let wasUp = try tun.currentLinkState().isUp
            if wasUp, !isUp { try tun.setUp(false) }
            try applyAddresses(to: tun)
            if isUp, !wasUp { try tun.setUp(true) }
            // Last, so that an earlier failure leaves nothing behind.
            try tun.setPersistent(isPersistent)
            return tun
        }

        private func applyAddresses(to tun: LinuxTun) throws(TunnelIOError) {
            let present = try tun.addresses()
            // The system manages IPv6 link-local addresses.
            for address in present
            where !(address.isIPv6 && address.address.isLinkLocal) && !addresses.contains(address) {
                try tun.remove(address)
            }
            for address in addresses where !present.contains(address) { try tun.add(address) }
        }
    }
#endif
