// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import CTunnelSystem
    import Darwin
    public import NetworkAddresses

    /// A utun device of macOS, iOS or tvOS, made here (as root, on macOS) or handed in as a descriptor (in a tunnel extension).
    ///
    /// Unverified: the logic, `Utun`, is tested elsewhere against a fake of `UtunSystem`, but `DarwinUtunSystem` below, which
    /// makes the real calls, has not yet been compiled or run on an Apple system.
    public final class DarwinTun: TunDevice, DescriptorTun {
        private let device: Utun<DarwinUtunSystem>

        init(_ device: Utun<DarwinUtunSystem>) { self.device = device }

        /// Makes an interface and sets its MTU.
        ///
        /// - Parameters:
        ///   - name: `utun` for any free number, or `utunN`.
        ///   - mtu: in bytes.
        /// - Throws: `.invalidInterfaceName` for another kind of name; `.device` with `errno` `EPERM` without root, `EBUSY`
        ///   when the number is taken.
        public init(name: String = "utun", mtu: Int) throws(TunnelIOError) {
            device = try Utun(name: name, mtu: mtu, system: DarwinUtunSystem())
        }

        /// Takes over the descriptor of a utun socket, and owns it from here on, even when this throws.
        /// - Throws: `.invalidDescriptor` when it is not that of a utun device.
        public init(descriptor: Int32) throws(TunnelIOError) {
            device = try Utun(descriptor: descriptor, system: DarwinUtunSystem())
        }

        /// Uses the device of a descriptor that the caller keeps, such as the one that the system opened for a tunnel
        /// extension. The device works on a duplicate, which ``close()`` closes.
        /// - Throws: `.invalidDescriptor` if it is not the descriptor of a utun device.
        public init(borrowing descriptor: Int32) throws(TunnelIOError) {
            device = try Utun(borrowing: descriptor, system: DarwinUtunSystem())
        }

        /// A selection among this process's utun interfaces.
        public enum Interface: Hashable, Sendable {
            /// The interface with this name, such as `utun4`.
            case name(String)
            /// The interface with this index.
            case index(UInt32)
            /// The only utun interface of this process.
            case only
        }

        /// Uses the utun device that the system opened for this tunnel extension, after its network settings were applied.
        ///
        /// It searches this process's descriptors for a socket that is connected to the kernel control of utun devices and
        /// belongs to the given interface. The device works on a duplicate.
        /// - Throws: `.deviceNotFound` if no socket matches or, with `.only`, if more than one does.
        public convenience init(ownedBySystem interface: Interface) throws(TunnelIOError) {
            let wanted: UtunSearch.Wanted =
                switch interface {
                case .name(let name): .name(name)
                case .index(let index): .index(index)
                case .only: .only
                }
            try self.init(borrowing: UtunSearch.find(wanted, system: DarwinUtunSystem()))
        }

        /// Gives a duplicate of the descriptor to the caller, and closes this device.
        /// - Throws: `.closed`, `.invalidDescriptor`.
        public func release() throws(TunnelIOError) -> Int32 { try device.release() }

        package var isInterface: Bool { true }

        package func copyDescriptor() throws(TunnelIOError) -> Int32 { try device.copyDescriptor() }

        /// The interface's name.
        /// - Throws: `.deviceRemoved`, `.closed`.
        public func currentName() throws(TunnelIOError) -> String { try device.currentName() }

        /// The most bytes that one IP packet may have on this interface.
        /// - Throws: as ``currentLinkState()``.
        public func currentMTU() throws(TunnelIOError) -> Int { try device.currentMTU() }

        /// Whether the interface is up, and the largest IP packet that it carries, in bytes.
        public func currentLinkState() throws(TunnelIOError) -> LinkState {
            try device.currentLinkState()
        }

        /// Sets the most bytes that one IP packet may have.
        public func setMTU(_ mtu: Int) throws(TunnelIOError) { try device.setMTU(mtu) }

        /// Brings the interface up or takes it down.
        public func setUp(_ isUp: Bool) throws(TunnelIOError) { try device.setUp(isUp) }

        /// Adds an address (as root), which also brings the interface up. It adds no route to the address's network,
        /// since the interface is point-to-point.
        /// - Throws: `.device` with the system's reason, `.closed`.
        public func add(_ address: InterfaceAddress) throws(TunnelIOError) { try device.add(address) }

        /// A descriptor that polls readable when ``receive(into:)`` has something to give.
        public var readiness: Int32 { device.readiness }

        /// A descriptor that polls readable when ``drainLinkEvents()`` may have something to give.
        public var linkReadiness: Int32? { device.linkReadiness }

        /// Appends packets, each one IP packet, until the device has no more or the batch has no room for another of 65,535
        /// bytes. The batch has at least ``PacketBatch/minimumReadBytes``; packets begin at multiples of 16.
        /// - Throws: `.deviceRemoved`, `.closed`, `.invalidBatch`.
        public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int { try device.receive(into: batch) }

        /// Sends every packet of nonzero length.
        /// - Returns: the numbers of packets that the system accepted and refused.
        /// - Throws: `.deviceRemoved`, `.closed`.
        public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult { try device.send(batch) }

        /// The changes of the interface since the last call, oldest first. Does not block.
        public func drainLinkEvents() -> [LinkEvent] { device.drainLinkEvents() }

        /// Always false: packets arrive one at a time.
        public var hasBufferedPackets: Bool { device.hasBufferedPackets }

        /// A utun interface has one queue only.
        /// - Throws: `.unsupported`.
        public func makeQueue() throws(TunnelIOError) -> any TunDevice { try device.makeQueue() }

        /// The counters since the device was opened.
        public var statistics: TunStatistics { device.statistics }

        /// Closes the descriptor. The system removes the interface with its last descriptor. You can call it more than
        /// once.
        public func close() { device.close() }
    }
#endif
