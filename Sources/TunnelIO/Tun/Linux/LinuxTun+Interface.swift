// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    public import NetworkAddresses
    import Synchronization
    import TunnelSystem

    extension LinuxTun {
        /// The counters since the device was opened.
        public var statistics: TunStatistics {
            var statistics = TunStatistics()
            statistics.malformedFrames = malformedFrames.load(ordering: .relaxed)
            statistics.refusedSuperframes = refusedSuperframes.load(ordering: .relaxed)
            return statistics
        }

        /// The interface's current name, which other programs may change.
        /// - Throws: `.deviceRemoved`, `.closed`.
        public func currentName() throws(TunnelIOError) -> String {
            let name = try withOpenDescriptor { number throws(TunnelIOError) in try LinkWatch.name(of: number) }
            lastName.withLock { $0 = name }
            return name
        }

        /// The most bytes that one IP packet may have on this interface.
        /// - Throws: as ``currentLinkState()``.
        public func currentMTU() throws(TunnelIOError) -> Int {
            try currentLinkState().mtu
        }

        /// Whether the interface is up, and the largest IP packet that it carries, in bytes.
        /// - Throws: `.deviceRemoved`; `.closed`; `.device` with `errno` `EPERM` or `ENODEV` if it was moved to a network
        ///   namespace that this process may not enter or see.
        public func currentLinkState() throws(TunnelIOError) -> LinkState {
            let state = try withOpenDescriptor { number throws(TunnelIOError) in
                try link.withLock { link throws(TunnelIOError) in try link.state(number) }
            }
            return LinkState(isUp: state.isUp, mtu: state.mtu)
        }

        /// Sets the most bytes that one IP packet may have: 68 to 65,535, and 1280 at least for IPv6.
        /// - Throws: as ``currentLinkState()``; `.device` with `errno` `EINVAL` for an MTU out of range.
        public func setMTU(_ mtu: Int) throws(TunnelIOError) {
            try withOpenDescriptor { number throws(TunnelIOError) in
                try link.withLock { link throws(TunnelIOError) in try link.setMTU(mtu, number) }
            }
        }

        /// Brings the interface up or takes it down.
        /// - Throws: as ``currentLinkState()``.
        public func setUp(_ isUp: Bool) throws(TunnelIOError) {
            try withOpenDescriptor { number throws(TunnelIOError) in
                try link.withLock { link throws(TunnelIOError) in try link.setUp(isUp, number) }
            }
        }

        /// Whether the interface is up and a process is attached to it (`IFF_RUNNING`).
        /// - Throws: as ``currentLinkState()``.
        public func isRunning() throws(TunnelIOError) -> Bool {
            try withLink { link, number throws(TunnelIOError) in try link.isRunning(number) }
        }

        /// The interface's number in its network namespace.
        /// - Throws: as ``currentLinkState()``.
        public func interfaceIndex() throws(TunnelIOError) -> Int32 {
            try withLink { link, number throws(TunnelIOError) in try link.index(number) }
        }

        /// The number of packets that the system queues for the device before it drops some.
        /// - Throws: as ``currentLinkState()``.
        public func txQueueLength() throws(TunnelIOError) -> Int {
            try withLink { link, number throws(TunnelIOError) in try link.txQueueLength(number) }
        }

        /// Sets the number of packets that the system queues for the device.
        /// - Throws: as ``currentLinkState()``; `.device` with `errno` `EINVAL` for a number out of range.
        public func setTxQueueLength(_ length: Int) throws(TunnelIOError) {
            try withLink { link, number throws(TunnelIOError) in try link.setTxQueueLength(length, number) }
        }

        /// Gives the interface another name.
        /// - Throws: `.invalidInterfaceName`; as ``currentLinkState()``; `.device` with `errno` `EEXIST` when the name is taken, and
        ///   `EBUSY` before Linux 6.2 while the interface is up.
        public func rename(to name: String) throws(TunnelIOError) {
            try InterfaceName.validate(name)
            try withLink { link, number throws(TunnelIOError) in try link.rename(to: name, number) }
            lastName.withLock { $0 = name }
        }

        /// The interface's addresses, including those that the system assigned, in the system's order.
        /// - Throws: as ``currentLinkState()``.
        public func addresses() throws(TunnelIOError) -> [InterfaceAddress] {
            try withLink { link, number throws(TunnelIOError) in try link.addresses(number) }
        }

        /// Adds an address to the interface, with a route to its network while the interface is up.
        /// - Throws: as ``currentLinkState()``; `.device` with `errno` `EEXIST` if the
        ///   interface has it, and `EINVAL` for IPv6 with an MTU of less than 1280.
        public func add(_ address: InterfaceAddress) throws(TunnelIOError) {
            try change(address, isAdded: true)
        }

        /// Removes an address from the interface, with its routes.
        /// - Throws: as ``add(_:)``; `.device` with `errno` `EADDRNOTAVAIL` if the interface does not have it.
        public func remove(_ address: InterfaceAddress) throws(TunnelIOError) {
            try change(address, isAdded: false)
        }

        private func change(_ address: InterfaceAddress, isAdded: Bool) throws(TunnelIOError) {
            try withLink { link, number throws(TunnelIOError) in
                try link.change(address, isAdded: isAdded, number)
            }
        }

        /// Decides whether the interface stays when the last device on it is closed.
        /// - Throws: `.device`, `.closed`.
        public func setPersistent(_ isPersistent: Bool) throws(TunnelIOError) {
            try withOpenDescriptor { number throws(TunnelIOError) in
                guard
                    SystemCall.retry({
                        ctunnel_tun_ioctl_value(number, CTUNNEL_TUNSETPERSIST, isPersistent ? 1 : 0)
                    }) >= 0
                else { throw errno == EBADFD ? removed : failure("set persistence", errno: errno) }
            }
        }

        /// The interface's kind, and the user and group that may attach to it.
        /// - Throws: as ``currentLinkState()``; `.unsupported` before Linux 4.20.
        public func attributes() throws(TunnelIOError) -> TunAttributes {
            try withLink { link, number throws(TunnelIOError) in try link.attributes(number) }
        }

        private func withLink<Result>(
            _ body: (inout LinkWatch, Int32) throws(TunnelIOError) -> Result
        ) throws(TunnelIOError) -> Result {
            try withOpenDescriptor { number throws(TunnelIOError) in
                try link.withLock { link throws(TunnelIOError) in try body(&link, number) }
            }
        }

        /// The changes of the interface since the last call, oldest first. Does not block.
        public func drainLinkEvents() -> [LinkEvent] {
            guard descriptor.acquire() else { return [] }
            defer { descriptor.release() }
            return link.withLock { $0.drain(descriptor.number) }
        }
    }
#endif
