// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization
    import TunnelSystem

    /// A Linux TUN device, made here or handed in as a descriptor.
    ///
    /// The interface may be renamed and moved to another network namespace while this process stays where it is: name,
    /// MTU, state and link events follow it there. Following it takes Linux 5.8, CAP_SYS_ADMIN for asking and setting and
    /// CAP_NET_BROADCAST for events; packets flow without any of these.
    ///
    /// Create the device on a thread that is in the network namespace in which the process works.
    public final class LinuxTun: TunDevice, DescriptorTun {
        let descriptor: SharedDescriptor
        let framing: TunFraming
        /// Splits the superframes that are read, and keeps the packets that were not returned yet.
        let reader: TunReader
        /// Builds superframes.
        let writer: TunWriter
        let link: Mutex<LinkWatch>
        /// The device's name in errors after the device was removed.
        let lastName: Mutex<String>
        /// Whether the interface may have more than one queue.
        let isMultiQueue: Bool
        let abilities: Abilities
        /// Frames from the kernel that were not a single packet, and were skipped.
        let malformedFrames = Atomic<Int>(0)
        /// Superframes that the kernel refused.
        let refusedSuperframes = Atomic<Int>(0)

        /// A descriptor that polls readable when ``receive(into:)`` has something to give, or has an error to throw.
        public var readiness: Int32 { descriptor.number }
        /// A descriptor that polls readable when ``drainLinkEvents()`` may have events. It stays the same for the
        /// device's whole life, even if the interface is moved to another namespace.
        public let linkReadiness: Int32?

        /// Creates an interface, or attaches to a persistent one of that name, and sets its MTU. It is down at first.
        ///
        /// - Parameters:
        ///   - name: 1 to 15 bytes, not a template.
        ///   - mtu: 68 to 65,535 bytes.
        ///   - offload: the work that the system does, if it supports it.
        ///   - isMultiQueue: whether ``cloneQueue()`` can add queues to the interface.
        /// - Throws: `.invalidInterfaceName`; `.device` with the remedy, and `errno` `EPERM` without CAP_NET_ADMIN, `ENOENT`
        ///   if the kernel has no TUN driver, `EBUSY` if another process has the device open, `EEXIST` if the name belongs to
        ///   an interface that is not a TUN device, `EINVAL` for an MTU out of range.
        public convenience init(
            name: String, mtu: Int, offload: OffloadOptions = .environment, isMultiQueue: Bool = false
        ) throws(TunnelIOError) {
            try InterfaceName.validate(name)
            let attached = try Self.attach(
                name: name, framing: TunFraming(hasVirtioHeader: offload.wantsVirtioHeader), isMultiQueue: isMultiQueue)
            try self.init(attached, mtu: mtu, offload: offload)
        }

        /// Takes ownership of an attached descriptor.
        convenience init(
            _ attached: consuming Attached, mtu: Int?, offload: OffloadOptions
        ) throws(TunnelIOError) {
            let number = attached.descriptor.number
            try Self.configure(number, name: attached.name, framing: attached.framing)
            let abilities = Self.turnOffloadsOn(number, framing: attached.framing, offload: offload)
            try self.init(attached, watch: try LinkWatch(), mtu: mtu, abilities: abilities)
        }

        /// Takes ownership of the descriptor of a TUN device that another program attached, even if this throws.
        ///
        /// The descriptor becomes non-blocking and close-on-exec. It may have been attached with or without `IFF_VNET_HDR`
        /// and with or without `IFF_NO_PI`; offloads are set again, and used only with `IFF_VNET_HDR`. Kernels before Linux
        /// 4.20 do not report whether there is packet information (no `IFF_NO_PI`); there, none is assumed.
        /// - Parameters:
        ///   - number: the descriptor.
        ///   - offload: the offloads to use.
        ///   - hasPacketInformation: `nil` asks the kernel, which reports the interface's last attachment.
        /// - Throws: `.invalidDescriptor` if it is not the descriptor of a TUN device: closed, of another kind, not attached
        ///   to an interface, or a TAP device, whose frames are Ethernet.
        public convenience init(
            descriptor number: Int32, offload: OffloadOptions = .environment, hasPacketInformation: Bool? = nil
        ) throws(TunnelIOError) {
            guard number >= 0, fcntl(number, F_GETFD) >= 0 else {
                throw TunnelIOError(.invalidDescriptor(number, expected: "an open descriptor"), errno: EBADF)
            }
            let descriptor = OwnedDescriptor(number)
            var request = InterfaceRequest()
            guard request.perform(CTUNNEL_TUNGETIFF, on: number) >= 0 else {
                let reason = errno
                let expected = reason == EBADFD ? "a TUN device with an interface" : "that of a TUN device"
                throw TunnelIOError(.invalidDescriptor(number, expected: expected), errno: reason)
            }
            guard request.flags & UInt16(CTUNNEL_IFF_TUN) != 0 else {
                throw TunnelIOError(
                    .invalidDescriptor(
                        number,
                        expected: "a TUN device: '\(request.name)' is a TAP device, which carries Ethernet frames"))
            }
            guard SystemCall.setNonBlocking(number), fcntl(number, F_SETFD, FD_CLOEXEC) >= 0 else {
                throw TunnelIOError(.device(name: request.name, operation: "set descriptor flags"), errno: errno)
            }
            let watch = try LinkWatch()
            let hasInformation = hasPacketInformation ?? (try? watch.attributes(number))?.hasPacketInformation
            let framing = TunFraming(
                hasVirtioHeader: request.flags & UInt16(CTUNNEL_IFF_VNET_HDR) != 0,
                hasPacketInformation: hasInformation ?? false)
            try Self.configure(number, name: request.name, framing: framing)
            let abilities = Self.turnOffloadsOn(number, framing: framing, offload: offload)
            let attached = Attached(
                descriptor: descriptor, name: request.name, framing: framing,
                isMultiQueue: request.flags & UInt16(CTUNNEL_IFF_MULTI_QUEUE) != 0)
            try self.init(attached, watch: watch, mtu: nil, abilities: abilities)
        }

        /// Uses the device of a descriptor that the caller keeps and may close at any time.
        ///
        /// The device works on a duplicate, which ``close()`` closes. So a number that the caller closes and that is reused
        /// for another file is never used, and the interface stays until both are closed. The descriptor becomes
        /// non-blocking, since both share that flag.
        /// - Throws: as ``init(descriptor:offload:hasPacketInformation:)``.
        public convenience init(
            borrowing descriptor: Int32, offload: OffloadOptions = .environment, hasPacketInformation: Bool? = nil
        ) throws(TunnelIOError) {
            try self.init(
                descriptor: try DescriptorCopy.make(of: descriptor), offload: offload,
                hasPacketInformation: hasPacketInformation)
        }

        init(
            _ attached: consuming Attached, watch: consuming LinkWatch, mtu: Int?, abilities: Abilities
        ) throws(TunnelIOError) {
            let number = attached.descriptor.number
            // Setting the MTU needs privileges, which a process that may attach to a prepared interface need not have.
            if let mtu, try watch.state(number).mtu != mtu { try watch.setMTU(mtu, number) }
            watch.start(number)
            linkReadiness = watch.events.descriptor.number
            link = Mutex(watch)
            lastName = Mutex(attached.name)
            framing = attached.framing
            self.abilities = abilities
            isMultiQueue = attached.isMultiQueue
            reader = try TunReader(isUsed: attached.framing.hasVirtioHeader)
            writer = TunWriter(
                joinsTCP: abilities.joinsTCP, joinsUDP: abilities.joinsUDP, framing: attached.framing)
            descriptor = SharedDescriptor(attached.descriptor)
        }

        /// Returns the descriptor, which the caller owns from now on, and closes this device.
        ///
        /// It is a duplicate with another number. A call in progress on another thread may still send or receive packets.
        /// Packets of a superframe that were not returned yet are lost.
        /// - Returns: a non-blocking descriptor attached to the interface, with the device's frame layout.
        /// - Throws: `.closed`; `.invalidDescriptor` with `errno` `EMFILE` if the process has no descriptors left.
        public func release() throws(TunnelIOError) -> Int32 {
            let copy = try copyDescriptor()
            descriptor.close()
            return copy
        }

        package var isInterface: Bool { true }

        package func copyDescriptor() throws(TunnelIOError) -> Int32 { try DescriptorCopy.make(of: descriptor) }

        /// Closes the descriptor. The system removes the interface with its last descriptor, unless it is persistent.
        /// You can call it more than once.
        public func close() {
            descriptor.close()
        }

        /// The error of a removed device.
        var removed: TunnelIOError { TunnelIOError(.deviceRemoved(name: lastName.withLock { $0 })) }

        /// An error of the device, by the name it had last.
        func failure(_ operation: String, errno: Int32) -> TunnelIOError {
            TunnelIOError(.device(name: lastName.withLock { $0 }, operation: operation), errno: errno)
        }

        func withOpenDescriptor<Result>(
            _ body: (Int32) throws(TunnelIOError) -> Result
        ) throws(TunnelIOError) -> Result {
            guard descriptor.acquire() else { throw TunnelIOError(.closed) }
            defer { descriptor.release() }
            do throws(TunnelIOError) {
                return try body(descriptor.number)
            } catch {
                switch error.code {
                case .deviceRemoved: throw removed
                case .socket(let operation): throw failure(operation, errno: error.errno)
                default: throw error
                }
            }
        }
    }
#endif
