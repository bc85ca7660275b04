// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A tunnel device over a socket that preserves message boundaries: one end of a socket pair whose other end a program
/// reads and writes. Each message is one IP packet.
///
/// It is always up, with the MTU that it was made with. When the socket is shut down, or the other end closes, the device
/// counts as removed. With `SOCK_DGRAM`, the system reports a closed other end to a sender only.
public final class SocketTun: TunDevice, DescriptorTun {
    private let descriptor: SharedDescriptor
    private let mtu: Int
    private let name: String

    /// Works on a duplicate of a socket, which ``close()`` closes; the caller closes its own descriptor. The socket becomes
    /// non-blocking, and on Darwin raises no `SIGPIPE`: both descriptors share these settings.
    /// - Parameters:
    ///   - number: a socket of type `SOCK_DGRAM` or `SOCK_SEQPACKET` that is connected.
    ///   - mtu: the most bytes of one IP packet, 68 to 65,535.
    /// - Throws: `.invalidDescriptor` when it is something else, `.invalidOptions` for an MTU out of range.
    public init(borrowing number: Int32, mtu: Int) throws(TunnelIOError) {
        guard (68...65_535).contains(mtu) else {
            throw TunnelIOError(.invalidOptions(["the MTU \(mtu) must be from 68 to 65,535"]))
        }
        guard number >= 0, fcntl(number, F_GETFD) >= 0 else {
            throw TunnelIOError(.invalidDescriptor(number, expected: "an open descriptor"), errno: EBADF)
        }
        guard let kind = Self.kind(of: number) else {
            throw TunnelIOError(.invalidDescriptor(number, expected: "a socket"), errno: errno)
        }
        // In a stream, packets would run together.
        guard kind == Self.datagrams || kind == Self.sequencedPackets else {
            throw TunnelIOError(.invalidDescriptor(number, expected: "a socket that preserves message boundaries"))
        }
        let copy = OwnedDescriptor(try DescriptorCopy.make(of: number))
        guard SystemCall.setNonBlocking(copy.number) else {
            throw TunnelIOError(.device(name: "socket \(number)", operation: "set descriptor flags"), errno: errno)
        }
        guard preventSignals(of: copy.number) else {
            throw TunnelIOError(.device(name: "socket \(number)", operation: "prevent signals"), errno: errno)
        }
        self.mtu = mtu
        name = "socket \(number)"
        descriptor = SharedDescriptor(copy)
    }

    /// Whether a descriptor is a local socket that preserves message boundaries. A utun socket is not local.
    package static func isSocketOfMessages(_ number: Int32) -> Bool {
        guard let kind = kind(of: number), kind == datagrams || kind == sequencedPackets else { return false }
        var name = sockaddr()
        var length = socklen_t(MemoryLayout<sockaddr>.size)
        guard unsafe getsockname(number, &name, &length) == 0 else { return false }
        return Int32(name.sa_family) == AF_UNIX
    }

    /// `SOCK_DGRAM` and `SOCK_SEQPACKET`, whose types differ between C libraries.
    private static let datagrams: Int32 = 2
    private static let sequencedPackets: Int32 = 5

    private static func kind(of number: Int32) -> Int32? {
        var kind: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe getsockopt(number, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 else { return nil }
        return kind
    }

    /// "socket" and the number that was given.
    public func currentName() throws(TunnelIOError) -> String {
        try checkOpen()
        return name
    }

    /// The MTU that the device was made with, in bytes.
    public func currentMTU() throws(TunnelIOError) -> Int {
        try checkOpen()
        return mtu
    }

    /// Up, with the MTU that the device was made with.
    public func currentLinkState() throws(TunnelIOError) -> LinkState {
        try checkOpen()
        return LinkState(isUp: true, mtu: mtu)
    }

    private func checkOpen() throws(TunnelIOError) {
        guard !isClosed else { throw TunnelIOError(.closed) }
    }

    /// Polls readable when there is a packet, and forever once the other end has closed.
    public var readiness: Int32 { descriptor.number }

    /// Always `nil`: the state of a socket does not change.
    public var linkReadiness: Int32? { nil }

    /// Always empty: the state of a socket does not change.
    public func drainLinkEvents() -> [LinkEvent] { [] }

    /// Appends packets, at offsets that are multiples of 16, until the socket has no more or the batch is full: it has
    /// its maximum of packets, or no room for another packet of 65,535 bytes.
    ///
    /// The batch must have at least ``PacketBatch/minimumReadBytes``; a smaller one throws `.invalidBatch`.
    public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        guard descriptor.acquire() else { throw TunnelIOError(.closed) }
        defer { descriptor.release() }
        let before = batch.count
        var hasSeenEnd = false
        while let start = batch.nextStart() {
            let count = SystemCall.retry {
                unsafe recv(descriptor.number, batch.base + start, PacketBatch.longestPacket, 0)
            }
            if count > 0 {
                batch.append(offset: start, length: count)
                continue
            }
            let reason = errno
            if count == 0 {
                // A message of no bytes looks like the end.
                guard isShutDown else { continue }
            } else if reason == EAGAIN || reason == EWOULDBLOCK || reason == ENOMEM || reason == ENOBUFS {
                // After a shutdown, Linux returns EAGAIN for datagrams instead of the end.
                guard batch.count == before, isShutDown else { break }
            }
            // The other end may have written between the two calls, and then closed: read its packets before the end.
            guard hasSeenEnd else {
                hasSeenEnd = true
                continue
            }
            // Return the packets that were read first; the next call finds the end again.
            guard batch.count == before else { break }
            throw removed
        }
        return batch.count - before
    }

    /// Whether reading has ended.
    private var isShutDown: Bool {
        var request = pollfd(fd: descriptor.number, events: EndOfReading.asked, revents: 0)
        let count = SystemCall.retry { unsafe poll(&request, 1, 0) }
        return count > 0 && request.revents & EndOfReading.told != 0
    }

    /// Sends every packet of nonzero length as one message. A packet is dropped if the socket's queue is full.
    public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        guard descriptor.acquire() else { throw TunnelIOError(.closed) }
        defer { descriptor.release() }
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard packet.count > 0 else { continue }
            let count = SystemCall.retry {
                unsafe sendWithoutSignal(descriptor.number, packet.baseAddress, packet.count)
            }
            if count >= 0 {
                result.sent += 1
                continue
            }
            switch errno {
            case EPIPE, ECONNRESET, ECONNREFUSED, ENOTCONN, EBADF: throw removed
            default: result.dropped += 1
            }
        }
        return result
    }

    private var removed: TunnelIOError { TunnelIOError(.deviceRemoved(name: name)) }

    /// Always false: each read returns one packet.
    public var hasBufferedPackets: Bool { false }

    /// There is one socket only.
    public func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }

    /// Always zero: a message is a packet without framing.
    public var statistics: TunStatistics { TunStatistics() }

    package var isInterface: Bool { false }

    package func copyDescriptor() throws(TunnelIOError) -> Int32 { try DescriptorCopy.make(of: descriptor) }

    /// Whether ``close()`` was called.
    var isClosed: Bool { descriptor.isClosed }

    /// Ends reading and writing, for every descriptor of this socket.
    func shutDown() { descriptor.shutDown() }

    /// Closes the duplicate. Safe to repeat.
    public func close() { descriptor.close() }
}
