// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A Linux TUN device, made here or handed in as a descriptor.
    ///
    /// The interface may be renamed and moved to another network namespace while this process stays where it is: name,
    /// MTU, state and link events follow it there. Following it takes Linux 5.8, CAP_SYS_ADMIN for asking and setting and
    /// CAP_NET_BROADCAST for events; packets flow without any of these.
    ///
    /// The device must be made on a thread that is in the namespace that the process works in.
    public final class LinuxTun: TunDevice {
        let descriptor: SharedDescriptor
        let framing: TunFraming
        /// What is left of a superframe, and room for one.
        let reader: TunReader
        /// What superframes are made with.
        let writer: TunWriter
        private let link: Mutex<LinkWatch>
        /// What errors call the device once it can no longer be asked.
        private let lastName: Mutex<String>
        /// Whether the interface may have more than one queue.
        let isMultiQueue: Bool
        private let abilities: Abilities
        /// Frames from the kernel that were no single packet, and were skipped.
        let malformedFrames = Atomic<Int>(0)
        /// Superframes that the kernel did not take.
        let refusedSuperframes = Atomic<Int>(0)

        /// A descriptor that polls readable when ``receive(into:)`` has something to give, or has an error to throw.
        public var readiness: Int32 { descriptor.number }
        /// A descriptor that polls readable when ``drainLinkEvents()`` may have something to give: the same one for the
        /// device's whole life, wherever the interface is moved to.
        public let linkReadiness: Int32?

        /// Makes an interface, or attaches to a persistent one of that name, and sets its MTU. It is down at first.
        ///
        /// - Parameters:
        ///   - name: 1 to 15 bytes, not a template.
        ///   - mtu: 68 to 65,535 bytes.
        ///   - offload: what is left to the system where it can do it.
        ///   - isMultiQueue: whether the interface is to be one that ``cloneQueue()`` can add queues to.
        /// - Throws: `.invalidInterfaceName`; `.device` with what to do about it, `errno` being `EPERM` without
        ///   CAP_NET_ADMIN, `ENOENT` where the kernel has no TUN driver, `EBUSY` when another process has the device open,
        ///   `EEXIST` when the name belongs to an interface that is no TUN device, `EINVAL` for an MTU out of range.
        public convenience init(
            name: String, mtu: Int, offload: OffloadOptions = .environment, isMultiQueue: Bool = false
        ) throws(TunnelIOError) {
            let framing = TunFraming(hasVirtioHeader: offload.wantsVirtioHeader)
            let descriptor = try Self.open(
                name: name, framing: framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: isMultiQueue)
            try Self.configure(descriptor.number, name: name, framing: framing)
            let abilities = Self.turnOffloadsOn(descriptor.number, framing: framing, offload: offload)
            try self.init(
                descriptor, name: name, framing: framing, mtu: mtu, abilities: abilities, isMultiQueue: isMultiQueue)
        }

        /// Takes over the descriptor of a TUN device that someone else attached, and owns it from here on, even when
        /// this throws.
        ///
        /// The descriptor is made non-blocking and close-on-exec. It may have been attached with or without `IFF_VNET_HDR`;
        /// offloads are set anew, and used only with that flag. It must have been attached with `IFF_NO_PI`: the kernel does not tell,
        /// since `TUNGETIFF` uses that very bit to say that the descriptor has no filter.
        /// - Throws: `.invalidDescriptor` when it is not that of a TUN device: not open, of another kind, not attached to
        ///   an interface, or a TAP device, whose frames are Ethernet.
        public convenience init(
            descriptor number: Int32, offload: OffloadOptions = .environment
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
            let framing = TunFraming(hasVirtioHeader: request.flags & UInt16(CTUNNEL_IFF_VNET_HDR) != 0)
            let status = fcntl(number, F_GETFL)
            guard status >= 0, fcntl(number, F_SETFL, status | O_NONBLOCK) >= 0,
                fcntl(number, F_SETFD, FD_CLOEXEC) >= 0
            else {
                throw TunnelIOError(.device(name: request.name, operation: "set descriptor flags"), errno: errno)
            }
            try Self.configure(number, name: request.name, framing: framing)
            let abilities = Self.turnOffloadsOn(number, framing: framing, offload: offload)
            try self.init(
                descriptor, name: request.name, framing: framing, mtu: nil, abilities: abilities,
                isMultiQueue: request.flags & UInt16(CTUNNEL_IFF_MULTI_QUEUE) != 0)
        }

        private init(
            _ descriptor: consuming OwnedDescriptor, name: String, framing: TunFraming, mtu: Int?,
            abilities: Abilities, isMultiQueue: Bool
        ) throws(TunnelIOError) {
            let number = descriptor.number
            var watch = try LinkWatch()
            if let mtu { try watch.setMTU(mtu, number) }
            watch.start(number)
            linkReadiness = watch.events.descriptor.number
            link = Mutex(watch)
            lastName = Mutex(name)
            self.framing = framing
            self.abilities = abilities
            self.isMultiQueue = isMultiQueue
            reader = try TunReader(isUsed: framing.hasVirtioHeader)
            writer = TunWriter(joinsTCP: abilities.joinsTCP, joinsUDP: abilities.joinsUDP)
            self.descriptor = SharedDescriptor(descriptor)
        }

        // MARK: - Setting up

        /// An open descriptor, attached to the interface of this name.
        package static func open(
            name: String, framing: TunFraming, kind: Int32, isMultiQueue: Bool = false
        ) throws(TunnelIOError) -> OwnedDescriptor {
            try InterfaceName.validate(name)
            let number = SystemCall.retry { openControlDevice() }
            guard number >= 0 else {
                let reason = errno
                let operation =
                    switch reason {
                    case ENOENT, ENODEV, ENXIO: "open /dev/net/tun; load the kernel's tun module"
                    case EACCES, EPERM: "open /dev/net/tun; run as root"
                    default: "open /dev/net/tun"
                    }
                throw TunnelIOError(.device(name: name, operation: operation), errno: reason)
            }
            let descriptor = OwnedDescriptor(number)
            var request = InterfaceRequest(name: name)
            request.flags = UInt16(
                kind | CTUNNEL_IFF_NO_PI | (framing.hasVirtioHeader ? CTUNNEL_IFF_VNET_HDR : 0)
                    | (isMultiQueue ? CTUNNEL_IFF_MULTI_QUEUE : 0))
            guard request.perform(CTUNNEL_TUNSETIFF, on: number) >= 0 else {
                throw attachFailure(name: name, errno: errno)
            }
            return descriptor
        }

        private static func attachFailure(name: String, errno reason: Int32) -> TunnelIOError {
            switch reason {
            case EBUSY:
                return TunnelIOError(
                    .device(name: name, operation: "attach; another process has it open"), errno: EBUSY)
            case EPERM:
                return TunnelIOError(.device(name: name, operation: "create; CAP_NET_ADMIN is needed"), errno: EPERM)
            case EINVAL where unsafe if_nametoindex(name) != 0, EEXIST:
                // The kernel says EINVAL where a device of that name is of another kind.
                return TunnelIOError(
                    .device(name: name, operation: "create; the name belongs to an interface of another kind"),
                    errno: EEXIST)
            default:
                return TunnelIOError(.device(name: name, operation: "create"), errno: reason)
            }
        }

        /// Turns off what may be left on from whoever had the interface before: offloads and header length belong to the
        /// interface and outlive an attachment.
        private static func configure(_ number: Int32, name: String, framing: TunFraming) throws(TunnelIOError) {
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

        /// Which packets may be written joined.
        private struct Abilities {
            var joinsTCP = false
            var joinsUDP = false
        }

        /// Turns on what is wanted and what the kernel takes.
        /// - Returns: which packets may be written joined.
        private static func turnOffloadsOn(
            _ number: Int32, framing: TunFraming, offload: OffloadOptions
        ) -> Abilities {
            guard framing.hasVirtioHeader else { return Abilities() }
            func accepts(_ mask: UInt) -> Bool {
                SystemCall.retry { ctunnel_tun_ioctl_value(number, CTUNNEL_TUNSETOFFLOAD, mask) } >= 0
            }
            let tcp = CTUNNEL_TUN_F_CSUM | CTUNNEL_TUN_F_TSO4 | CTUNNEL_TUN_F_TSO6
            let udp = CTUNNEL_TUN_F_USO4 | CTUNNEL_TUN_F_USO6
            // A kernel that makes such frames also takes them.
            let knowsTCP = accepts(tcp)
            let knowsUDP = knowsTCP && accepts(tcp | udp)
            var mask: UInt = 0
            if knowsTCP, offload.tunTCPSegmentation { mask |= tcp }
            if knowsUDP, offload.tunUDPSegmentation { mask |= CTUNNEL_TUN_F_CSUM | udp }
            if !accepts(mask) { _ = accepts(0) }
            return Abilities(
                joinsTCP: knowsTCP && offload.tunTCPCoalescing, joinsUDP: knowsUDP && offload.tunUDPCoalescing)
        }

        // MARK: - More queues

        /// Another queue of this interface, a device of its own that may be used on another thread.
        ///
        /// The kernel spreads packets over the queues so that those of one flow come from one queue: from the one that
        /// the flow's packets were last sent to, or else by a hash. Offloads are those of the interface. The interface goes when
        /// its last queue is closed, unless it is persistent.
        ///
        /// Where the interface was moved to another namespace, the queue is opened there, which takes CAP_SYS_ADMIN.
        /// - Throws: `.unsupported` when the interface was not made for more than one queue; `.deviceRemoved`; `.closed`;
        ///   `.device` with `errno` `E2BIG` when it has 256 queues, the most there can be, and `EPERM` without CAP_NET_ADMIN
        ///   where the process is not the interface's owner.
        public func cloneQueue() throws(TunnelIOError) -> LinuxTun {
            guard isMultiQueue else {
                throw TunnelIOError(.unsupported("another queue of a device that was made with one"))
            }
            return try withOpenDescriptor { number throws(TunnelIOError) in
                // It may be renamed or moved in between; what was attached to, or even made, in its stead goes again.
                for _ in 0..<8 {
                    let name = try LinkWatch.name(of: number)
                    let place = (try? NetworkNamespace(ofDevice: number))?.identity
                    let opened = try openBeside(number, name: name)
                    let reached = (try? NetworkNamespace(ofDevice: opened.number))?.identity
                    guard place == reached, try LinkWatch.name(of: number) == name,
                        try LinkWatch.name(of: opened.number) == name
                    else { continue }
                    return try LinuxTun(
                        opened, name: name, framing: framing, mtu: nil, abilities: abilities, isMultiQueue: true)
                }
                throw failure("add a queue; it does not keep its name", errno: EAGAIN)
            }
        }

        /// Another queue of this interface, as ``cloneQueue()``.
        public func makeQueue() throws(TunnelIOError) -> any TunDevice { try cloneQueue() }

        /// A descriptor attached to the interface of this name where that of `number` is.
        private func openBeside(_ number: Int32, name: String) throws(TunnelIOError) -> OwnedDescriptor {
            guard let namespace = try? NetworkNamespace(ofDevice: number),
                namespace.identity != NetworkNamespace.current
            else {
                return try Self.open(name: name, framing: framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: true)
            }
            let framing = framing
            let opened = try namespace.run { () -> Result<Int32, TunnelIOError> in
                Result { () throws(TunnelIOError) in
                    try Self.open(name: name, framing: framing, kind: CTUNNEL_IFF_TUN, isMultiQueue: true).take()
                }
            }
            return OwnedDescriptor(try opened.get())
        }

        // MARK: - The interface

        /// What the device has counted since it was opened.
        public var statistics: TunStatistics {
            var statistics = TunStatistics()
            statistics.malformedFrames = malformedFrames.load(ordering: .relaxed)
            statistics.refusedSuperframes = refusedSuperframes.load(ordering: .relaxed)
            return statistics
        }

        /// The interface's present name, which may have been changed by others.
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

        /// Whether the interface is up, and the most bytes that one IP packet may have on it.
        /// - Throws: `.deviceRemoved`; `.closed`; `.device` with `errno` `EPERM` or `ENODEV` when it was moved to a network
        ///   namespace that this process may not enter or not even see.
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

        /// The changes of the interface since the last call, oldest first. Does not block.
        public func drainLinkEvents() -> [LinkEvent] {
            guard descriptor.acquire() else { return [] }
            defer { descriptor.release() }
            return link.withLock { $0.drain(descriptor.number) }
        }

        /// Closes the descriptor, and with it goes the interface unless it is persistent. Safe to repeat.
        public func close() {
            descriptor.close()
        }

        /// The error of a device that is gone.
        var removed: TunnelIOError { TunnelIOError(.deviceRemoved(name: lastName.withLock { $0 })) }

        /// An error of the device, by the name it had last.
        func failure(_ operation: String, errno: Int32) -> TunnelIOError {
            TunnelIOError(.device(name: lastName.withLock { $0 }, operation: operation), errno: errno)
        }

        private func withOpenDescriptor<Result>(
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

    /// A fresh descriptor of the TUN driver, where the class's own `open` does not hide the system's.
    private func openControlDevice() -> Int32 {
        unsafe open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK)
    }
#endif
