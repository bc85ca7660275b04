// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem

/// A file descriptor for the packets of a tunnel, for a protocol in C, Rust or another language.
/// ``PacketFlow/leaseDescriptor(_:)`` creates it.
///
/// Pass ``number`` to the protocol, such as to `culvert_packets_open` of `culvert.h`, which accepts both formats. When the
/// tunnel stops, end the protocol first and then call ``close()``.
public final class LeasedDescriptor: Sendable {
    /// The layout of packets on a descriptor.
    public enum Format: Hashable, Sendable {
        /// A duplicate of the system interface's own descriptor. The system's header precedes each packet. On a utun
        /// socket, it is the protocol family (`AF_INET`, `AF_INET6`) as four bytes in network byte order. On a TUN device
        /// of Linux, the flags with which the host has attached it determine the header.
        case interface
        /// One end of a socket pair that preserves message boundaries. Each read returns and each write sends one IP
        /// packet of at most 65,535 bytes, without a header. A write fails (`EAGAIN`, `ENOBUFS`) while the queue is full.
        case packets
    }

    /// The descriptor, which is non-blocking and closed on exec. It is valid until ``close()``, or until this object is
    /// released. Keep the object until the protocol has ended: the flow releases it when the tunnel ends, and the system
    /// may then give the number to another file.
    public let number: Int32
    /// The layout of packets on it.
    public let format: Format

    private enum Source {
        /// A duplicate of a descriptor of the device.
        case interface(SharedDescriptor)
        case relay(DescriptorRelay)
    }

    private let source: Source
    private let lease: any TunDevice

    /// - Parameters:
    ///   - device: The interface.
    ///   - lease: The lease of it, which ends with the descriptor.
    ///   - format: The wanted format; `nil` for that of the interface's own descriptor, if it has one.
    /// - Throws: `.unsupported` if the interface has no descriptor of this format; the errors of `DescriptorRelay`.
    init(_ device: any TunDevice, lease: any TunDevice, _ format: Format?) throws(TunnelIOError) {
        if let device = device as? any DescriptorTun, !device.isInterface || format != .packets {
            guard device.isInterface || format != .interface else { throw Self.noInterface }
            let descriptor = SharedDescriptor(OwnedDescriptor(try device.copyDescriptor()))
            (source, number) = (.interface(descriptor), descriptor.number)
            self.format = device.isInterface ? .interface : .packets
        } else {
            guard format != .interface else { throw Self.noInterface }
            let relay = try DescriptorRelay(lease)
            (source, number, self.format) = (.relay(relay), relay.descriptor.number, .packets)
        }
        self.lease = lease
    }

    private static var noInterface: TunnelIOError { TunnelIOError(.unsupported("the interface's own descriptor")) }

    deinit {
        end()
        lease.close()
    }

    /// The number of packets that were dropped, in both directions, because a queue between the tunnel's interface and the
    /// descriptor was full. Always 0 for the interface's own descriptor, whose drops the system counts.
    public var droppedCount: Int {
        switch source {
        case .interface: 0
        case .relay(let relay): relay.droppedCount
        }
    }

    /// Ends reads of a socket pair, which stays open until ``close()``: the tunnel has ended.
    func end() {
        if case .relay(let relay) = source { relay.end() }
    }

    /// Returns the interface to the flow and closes the descriptor. You can call it more than once, on any thread.
    ///
    /// Reads of a socket pair end, through its duplicates too: `recv` returns 0, `culvert_packets_read` returns
    /// `CULVERT_ENDED`. Duplicates of the interface's own descriptor continue to work: end the protocol before this call.
    public func close() {
        switch source {
        case .interface(let descriptor): descriptor.close()
        case .relay(let relay): relay.close()
        }
        lease.close()
    }
}
