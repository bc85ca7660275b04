// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import Synchronization
import TunnelSystem

/// The system calls that a utun device needs. Each result is negative when the call failed, with the reason in `errno`.
///
/// Tests replace these calls, so that the code above them can be tested on systems without utun.
package protocol UtunSystem: Sendable {
    /// A socket connected to a new utun interface; `unit` 0 picks a free one, N + 1 asks for `utunN`.
    func connect(unit: UInt32) -> Int32
    /// The name of a socket's interface; `nil` if it is not a utun socket.
    func interfaceName(of descriptor: Int32) -> String?
    /// The index of an interface; zero when there is none of this name.
    func interfaceIndex(of name: String) -> UInt32
    /// Makes a descriptor non-blocking and close-on-exec.
    func setNonBlocking(_ descriptor: Int32) -> Int32
    /// Sets the sizes of the socket's receive and send buffers (`SO_RCVBUF`, `SO_SNDBUF`).
    func setBufferSizes(_ byteCount: Int32, of descriptor: Int32) -> Int32
    /// The socket's receive buffer in bytes.
    func receiveBufferSize(of descriptor: Int32) -> Int32
    /// Sets `UTUN_OPT_MAX_PENDING_PACKETS`.
    func setMaxPendingPackets(_ count: UInt32, of descriptor: Int32) -> Int32
    /// The interface's MTU in bytes.
    func mtu(of name: String) -> Int32
    /// Sets the interface's MTU.
    func setMTU(_ mtu: Int32, of name: String) -> Int32
    /// Whether the interface is up: 1 or 0.
    func isUp(_ name: String) -> Int32
    /// Brings the interface up or takes it down.
    func setUp(_ isUp: Bool, of name: String) -> Int32
    /// Adds the address of the request to the interface that the request names.
    func addAddress(_ request: UtunAddressRequest) -> Int32
    /// A non-blocking routing socket, which reports changes of interfaces.
    func openLinkEvents() -> Int32
    /// One message of the routing socket.
    func readLinkEvent(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int
    /// One frame: four bytes into `header`, the rest into `packet`. The result counts both.
    func read(_ descriptor: Int32, header: inout UInt32, packet: UnsafeMutableRawBufferPointer) -> Int
    /// Sends one frame.
    func write(_ descriptor: Int32, header: UInt32, packet: UnsafeRawBufferPointer) -> Int
}

/// A utun device over the system calls of `System`.
///
/// Verified against a fake of those calls only; see `DarwinTun`.
package final class Utun<System: UtunSystem>: DescriptorTun {
    private let system: System
    private let descriptor: SharedDescriptor
    private let name: String
    private let links: Mutex<Links>
    package let linkReadiness: Int32?
    /// Frames that were not a packet, and were skipped.
    private let malformedFrames = Atomic<Int>(0)

    package var readiness: Int32 { descriptor.number }

    private struct Links: ~Copyable, Sendable {
        let descriptor: OwnedDescriptor?
        let index: UInt32
        var isUp: Bool
        var mtu: Int
    }

    /// Makes an interface: `utun` for any number, `utunN` for that one.
    package convenience init(
        name: String, mtu: Int, bufferBytes: Int = UtunFraming.bufferBytes, system: System
    ) throws(TunnelIOError) {
        guard let unit = UtunFraming.unit(of: name) else { throw TunnelIOError(.invalidInterfaceName(name)) }
        let number = try SystemCall.check(.device(name: name, operation: "create")) { system.connect(unit: unit) }
        try self.init(OwnedDescriptor(number), mtu: mtu, bufferBytes: bufferBytes, system: system)
    }

    /// Takes over the descriptor of a utun socket, even when this throws.
    package convenience init(
        descriptor: Int32, bufferBytes: Int = UtunFraming.bufferBytes, system: System
    ) throws(TunnelIOError) {
        try self.init(OwnedDescriptor(descriptor), mtu: nil, bufferBytes: bufferBytes, system: system)
    }

    /// Works on a duplicate of a descriptor that the caller keeps.
    package convenience init(
        borrowing descriptor: Int32, bufferBytes: Int = UtunFraming.bufferBytes, system: System
    ) throws(TunnelIOError) {
        try self.init(
            OwnedDescriptor(DescriptorCopy.make(of: descriptor)), mtu: nil, bufferBytes: bufferBytes, system: system)
    }

    private init(
        _ descriptor: consuming OwnedDescriptor, mtu: Int?, bufferBytes: Int, system: System
    ) throws(TunnelIOError) {
        let number = descriptor.number
        guard let name = system.interfaceName(of: number) else {
            throw TunnelIOError(.invalidDescriptor(number, expected: "that of a utun device"), errno: errno)
        }
        try SystemCall.check(.device(name: name, operation: "set descriptor flags")) { system.setNonBlocking(number) }
        // Failures are ignored: the sizes affect only speed, and older systems may refuse them or grant less.
        _ = system.setBufferSizes(Int32(clamping: max(bufferBytes, 1)), of: number)
        let buffer = system.receiveBufferSize(of: number)
        if buffer > 0 {
            _ = system.setMaxPendingPackets(UtunFraming.pendingPackets(receiveBuffer: Int(buffer)), of: number)
        }
        if let mtu {
            try SystemCall.check(.device(name: name, operation: "set the MTU to \(mtu)")) {
                system.setMTU(Int32(clamping: mtu), of: name)
            }
        }
        // A sandbox may have no routing socket: then there are no events.
        let events = system.openLinkEvents()
        linkReadiness = events >= 0 ? events : nil
        links = Mutex(
            Links(
                descriptor: events >= 0 ? OwnedDescriptor(events) : nil, index: system.interfaceIndex(of: name),
                isUp: system.isUp(name) > 0, mtu: Int(max(system.mtu(of: name), 0))))
        self.system = system
        self.name = name
        self.descriptor = SharedDescriptor(descriptor)
    }

    package func currentName() throws(TunnelIOError) -> String {
        guard !descriptor.isClosed else { throw TunnelIOError(.closed) }
        return name
    }

    package func currentMTU() throws(TunnelIOError) -> Int {
        try Int(asking("read the MTU") { system.mtu(of: name) })
    }

    package func currentLinkState() throws(TunnelIOError) -> LinkState {
        LinkState(isUp: try asking("read the state") { system.isUp(name) } != 0, mtu: try currentMTU())
    }

    package func setMTU(_ mtu: Int) throws(TunnelIOError) {
        _ = try asking("set the MTU to \(mtu)") { system.setMTU(Int32(clamping: mtu), of: name) }
    }

    package func setUp(_ isUp: Bool) throws(TunnelIOError) {
        _ = try asking(isUp ? "bring the interface up" : "take the interface down") { system.setUp(isUp, of: name) }
    }

    package func add(_ address: InterfaceAddress) throws(TunnelIOError) {
        let request = UtunAddressRequest(address, interface: name)
        _ = try asking("add the address \(address)") { system.addAddress(request) }
    }

    private func asking(_ operation: String, _ call: () -> Int32) throws(TunnelIOError) -> Int32 {
        guard !descriptor.isClosed else { throw TunnelIOError(.closed) }
        return try SystemCall.check(.device(name: name, operation: operation), call)
    }

    package func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        guard descriptor.acquire() else { throw TunnelIOError(.closed) }
        defer { descriptor.release() }
        let before = batch.count
        while let start = batch.nextStart() {
            let room = unsafe UnsafeMutableRawBufferPointer(
                start: batch.base + start, count: PacketBatch.longestPacket)
            var header: UInt32 = 0
            let count = SystemCall.retry { unsafe system.read(descriptor.number, header: &header, packet: room) }
            guard count > 0 else {
                // Packets that were read are returned first; the next call returns the error.
                if batch.count == before { try endOfPackets(count < 0 ? errno : 0) }
                break
            }
            guard let length = UtunFraming.packetLength(frame: count, header: header) else {
                malformedFrames.wrappingAdd(1, ordering: .relaxed)
                continue
            }
            batch.append(offset: start, length: length)
        }
        return batch.count - before
    }

    /// - Throws: unless the reason means that there is no packet now. Zero is the end of the file.
    private func endOfPackets(_ reason: Int32) throws(TunnelIOError) {
        switch reason {
        case EAGAIN, ENOBUFS, ENOMEM, EIO: return
        case 0, ENXIO, ENOTCONN, ECONNRESET: throw TunnelIOError(.deviceRemoved(name: name))
        default: throw TunnelIOError(.device(name: name, operation: "read"), errno: reason)
        }
    }

    package func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        guard descriptor.acquire() else { throw TunnelIOError(.closed) }
        defer { descriptor.release() }
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard packet.count > 0 else { continue }
            guard let header = unsafe UtunFraming.header(of: packet) else {
                result.dropped += 1
                continue
            }
            if SystemCall.retry({ unsafe system.write(descriptor.number, header: header, packet: packet) }) >= 0 {
                result.sent += 1
            } else if errno == ENXIO || errno == ENOTCONN {
                throw TunnelIOError(.deviceRemoved(name: name))
            } else {
                result.dropped += 1
            }
        }
        return result
    }

    package func drainLinkEvents() -> [LinkEvent] {
        links.withLock { links in
            var changes: [LinkEvent] = []
            guard let events = linkReadiness else { return changes }
            unsafe withUnsafeTemporaryAllocation(byteCount: 2048, alignment: 8) { buffer in
                while true {
                    let count = SystemCall.retry { unsafe system.readLinkEvent(events, into: buffer) }
                    guard count > 0 else { return }
                    let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<min(count, buffer.count)])
                    guard let message = unsafe UtunLinkMessage(bytes), UInt32(message.index) == links.index else {
                        continue
                    }
                    if message.mtu != links.mtu {
                        links.mtu = message.mtu
                        changes.append(.mtu(message.mtu))
                    }
                    if message.isUp != links.isUp {
                        links.isUp = message.isUp
                        changes.append(message.isUp ? .up : .down)
                    }
                }
            }
            return changes
        }
    }

    package var hasBufferedPackets: Bool { false }

    package func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }

    package var statistics: TunStatistics {
        var statistics = TunStatistics()
        statistics.malformedFrames = malformedFrames.load(ordering: .relaxed)
        return statistics
    }

    package func close() {
        descriptor.close()
    }

    package var isInterface: Bool { true }

    package func copyDescriptor() throws(TunnelIOError) -> Int32 { try DescriptorCopy.make(of: descriptor) }

    /// Gives a duplicate of the descriptor to the caller, and closes the device.
    package func release() throws(TunnelIOError) -> Int32 {
        let copy = try copyDescriptor()
        descriptor.close()
        return copy
    }
}
