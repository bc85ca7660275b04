// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
package import TunnelSystem

/// Moves packets between a device and one end of a socket pair, on its own thread, for a program that needs a descriptor.
/// Each message on the pair is one IP packet.
///
/// Packets that the socket's queue or the device has no room for are dropped and counted. When the device ends, reads of
/// the other end do too.
package final class DescriptorRelay: Sendable {
    /// The end for the program: non-blocking, closed on exec.
    package let descriptor: SharedDescriptor
    private let socket: SocketTun
    private let thread: LoopThread
    private let drops: Drops

    /// The size in bytes of each queue of the pair, if the system permits it.
    private static let queueBytes: Int32 = 1 << 20

    /// Starts to move packets.
    /// - Parameter device: The device, which the relay uses until ``close()`` and does not close.
    /// - Throws: `.device` if the system refuses the sockets, `.outOfMemory`, `.eventLoop` if it refuses a thread.
    package init(_ device: any TunDevice) throws(TunnelIOError) {
        var ends: [Int32] = [-1, -1]
        try Self.check { unsafe socketpair(AF_UNIX, packetPairKind, 0, &ends) }
        let inner = OwnedDescriptor(ends[0])
        let outer = OwnedDescriptor(ends[1])
        for number in ends {
            try Self.check { fcntl(number, F_SETFD, FD_CLOEXEC) }
            SocketQueue.setSize(of: number, Self.queueBytes)
        }
        try Self.check { SystemCall.setNonBlocking(ends[1]) && preventSignals(of: ends[1]) ? 0 : -1 }
        let socket = try SocketTun(borrowing: inner.number, mtu: PacketBatch.longestPacket)
        let descriptor = SharedDescriptor(outer)
        let room = Room(batch: try PacketBatch(packetCapacity: 64))
        let drops = Drops()
        thread = try LoopThread(name: "culvert-relay") {
            Self.run(device, socket, room.batch, drops)
            // With datagrams, the program does not notice the end of the socket on the other side.
            descriptor.shutDown()
        }
        (self.descriptor, self.socket, self.drops) = (descriptor, socket, drops)
    }

    deinit { end() }

    private static func check(_ call: () -> Int32) throws(TunnelIOError) {
        try SystemCall.check(.device(name: "socket pair", operation: "create"), call)
    }

    /// A batch that one thread uses.
    private struct Room: @unchecked Sendable {
        let batch: PacketBatch
    }

    private final class Drops: Sendable {
        let count = Atomic<Int>(0)
    }

    /// The number of packets that were dropped, in both directions.
    package var droppedCount: Int { drops.count.load(ordering: .relaxed) }

    private static func run(_ device: any TunDevice, _ socket: SocketTun, _ batch: PacketBatch, _ drops: Drops) {
        do throws(TunnelIOError) {
            while !socket.isClosed {
                _ = try DescriptorWait.wait(device.readiness, socket.readiness, until: nil)
                repeat { try pass(device, socket, batch, drops) } while device.hasBufferedPackets
                try pass(socket, device, batch, drops)
            }
        } catch {
            // The device or the lease of it has ended, or the pair was shut down.
        }
    }

    private static func pass(
        _ source: any TunDevice, _ destination: any TunDevice, _ batch: PacketBatch, _ drops: Drops
    ) throws(TunnelIOError) {
        batch.removeAll()
        guard try source.receive(into: batch) > 0 else { return }
        let dropped = try destination.send(batch).dropped
        if dropped > 0 { drops.count.wrappingAdd(dropped, ordering: .relaxed) }
    }

    /// Ends reads of the program, through its duplicates too, and soon the thread. Safe to repeat.
    package func end() {
        socket.shutDown()
        descriptor.shutDown()
    }

    /// Does the same, waits for the thread, and closes both ends. Safe to repeat: each call waits for the thread.
    package func close() {
        end()
        thread.join()
        socket.close()
        descriptor.close()
    }
}

extension SharedDescriptor {
    /// Ends reading and writing on a socket, for all of its descriptors.
    func shutDown() {
        guard acquire() else { return }
        defer { release() }
        _ = shutdown(number, Int32(SHUT_RDWR))
    }
}
