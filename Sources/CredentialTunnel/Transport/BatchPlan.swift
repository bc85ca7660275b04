// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO
import WireGuardCore

/// The plan of one batch, which its steps share: the packets to send under each key and its counters, or the session
/// that opens each datagram, and the results. A plan is created once and reused for each batch without allocation. A
/// `TunnelEnd` fills it in under the transport's lock. Sealing and opening use only the plan, on any thread.
@safe
final class BatchPlan: @unchecked Sendable {
    // Unchecked: only the owner of the batch uses the plan.

    @unsafe
    private struct View {
        let base: UnsafeMutableRawPointer
        let count: Int
    }

    private struct SealRun {
        let keys: SessionKeys
        let firstCounter: UInt64
        let packets: Range<Int>
        let endpoint: Endpoint
    }

    private struct OpenRun {
        let session: TunnelSession
        let keys: SessionKeys
        let datagrams: Range<Int>
    }

    /// The result of a datagram other than the length of its packet.
    private enum Outcome {
        static let nothing: Int32 = -1
        static let forged: Int32 = -2
    }

    private let capacity: Int
    private let views: UnsafeMutablePointer<View>
    private let lengths: UnsafeMutablePointer<Int32>
    /// The number of packets or datagrams in the batch.
    private(set) var count = 0
    private var seals: ContiguousArray<SealRun> = []
    private var opens: ContiguousArray<OpenRun> = []

    init(capacity: Int) {
        self.capacity = capacity
        unsafe views = .allocate(capacity: capacity)
        unsafe lengths = .allocate(capacity: capacity)
        unsafe lengths.initialize(repeating: Outcome.nothing, count: capacity)
        seals.reserveCapacity(64)
        opens.reserveCapacity(64)
    }

    deinit {
        unsafe views.deallocate()
        unsafe lengths.deallocate()
    }

    /// Clears the plan and sets its batch.
    func begin(_ batch: PacketBatch) {
        count = min(batch.count, capacity)
        seals.removeAll(keepingCapacity: true)
        opens.removeAll(keepingCapacity: true)
        for index in 0..<count {
            let descriptor = batch[index]
            unsafe (views + index).initialize(
                to: View(base: batch.base + Int(descriptor.offset), count: Int(descriptor.length)))
        }
    }

    /// Returns a packet or datagram of the batch. A consumed packet or datagram is empty.
    @inline(__always)
    func bytes(_ index: Int) -> UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(start: views[index].base, count: views[index].count)
    }

    @inline(__always)
    func byteCount(_ index: Int) -> Int { unsafe views[index].count }

    // MARK: - Sealing

    /// Plans to send packets to one endpoint under consecutive counters. The counter of a consumed packet stays unused.
    func send(_ packets: Range<Int>, from firstCounter: UInt64, under keys: SessionKeys, to endpoint: Endpoint) {
        seals.append(SealRun(keys: keys, firstCounter: firstCounter, packets: packets, endpoint: endpoint))
    }

    /// Seals the planned packets into `datagrams`. A packet that does not fit there is not sent, and its counter stays
    /// unused.
    func seal(into datagrams: PacketBatch) {
        // Never seal twice under one counter, and do not retain keys in the plan.
        defer { seals.removeAll(keepingCapacity: true) }
        guard !seals.isEmpty else { return }
        let start = datagrams.tail
        let free = unsafe datagrams.freeBytes
        guard let out = free.baseAddress else { return }
        var offset = 0
        for run in seals {
            var counter = run.firstCounter
            for index in run.packets {
                let view = unsafe views[index]
                if unsafe view.count > 0 {
                    let byteCount = unsafe Layout.sealedOverhead &+ view.count
                    guard byteCount <= free.count &- offset else { return }
                    unsafe MessageEncoder.seal(
                        Header(code: .data, index: run.keys.remoteIndex, counter: counter), view.base,
                        byteCount: view.count, into: out + offset, keys: run.keys)
                    datagrams.append(offset: start &+ offset, length: byteCount, endpoint: run.endpoint)
                    offset &+= byteCount
                }
                counter &+= 1
            }
        }
    }

    // MARK: - Opening

    /// Plans a batch of datagrams.
    /// - Parameters:
    ///   - session: Returns the session with this index if it is still usable.
    ///   - other: Handles all datagrams other than data of a session.
    @inline(__always)
    func planOpen(session: (UInt32) -> TunnelSession?, other: (Int) -> Void) {
        var position = 0
        while position < count {
            unsafe lengths[position] = Outcome.nothing
            guard byteCount(position) > 0 else {
                position &+= 1
                continue
            }
            guard let index = dataIndex(position), let found = session(index) else {
                other(position)
                position &+= 1
                continue
            }
            let start = position
            repeat {
                // Skip replayed datagrams before they are opened, because this check is cheap; commit counts them.
                unsafe lengths[position] = found.mayAccept(counter(position)) ? 0 : Outcome.nothing
                position &+= 1
            } while position < count && dataIndex(position) == index
            opens.append(OpenRun(session: found, keys: found.keys, datagrams: start..<position))
        }
    }

    /// Returns the session index of a datagram if the datagram has the form of a data message.
    @inline(__always)
    private func dataIndex(_ position: Int) -> UInt32? {
        let view = unsafe views[position]
        guard unsafe view.count >= Layout.sealedOverhead && view.count <= Layout.maximumDatagramByteCount else {
            return nil
        }
        let base = unsafe UnsafeRawPointer(view.base)
        guard unsafe base.loadLittleEndian32(at: 0) == Header.firstWord(.data) else { return nil }
        return unsafe base.loadLittleEndian32(at: 4)
    }

    @inline(__always)
    private func counter(_ position: Int) -> UInt64 {
        unsafe UnsafeRawPointer(views[position].base).loadLittleEndian64(at: 8)
    }

    /// Opens the planned datagrams in place.
    func open() {
        for run in opens {
            for index in run.datagrams where unsafe lengths[index] != Outcome.nothing {
                let header = Header(code: .data, index: run.keys.localIndex, counter: counter(index))
                let range = unsafe MessageDecoder.openInPlace(header, bytes(index), keys: run.keys)
                unsafe lengths[index] = range.map { Int32(truncatingIfNeeded: $0.count) } ?? Outcome.forged
            }
        }
    }

    /// Determines the packets to deliver from the opened datagrams.
    /// - Parameters:
    ///   - accept: Marks an authentic datagram as received, and returns the number of bytes of its packet to deliver.
    ///   - drop: Counts a datagram that is not authentic (`true`) or was received before (`false`).
    @inline(__always)
    func commitOpen(
        accept: (_ position: Int, Header, TunnelSession, _ packet: UnsafeRawBufferPointer) -> Int, drop: (Bool) -> Void
    ) {
        defer { opens.removeAll(keepingCapacity: true) }
        for run in opens {
            for index in run.datagrams {
                let length = unsafe lengths[index]
                unsafe lengths[index] = Outcome.nothing
                guard length >= 0 else {
                    drop(length == Outcome.forged)
                    continue
                }
                let packet = unsafe UnsafeRawBufferPointer(
                    start: views[index].base + Header.sealedLength, count: Int(length))
                let header = Header(code: .data, index: run.keys.localIndex, counter: counter(index))
                unsafe lengths[index] = Int32(truncatingIfNeeded: accept(index, header, run.session, packet))
            }
        }
    }

    /// Whether there are opened datagrams to commit.
    var hasOpened: Bool { !opens.isEmpty }

    /// Narrows each datagram of the batch to the packet to deliver.
    func narrow(_ datagrams: PacketBatch) {
        for index in 0..<datagrams.count {
            let offset = datagrams[index].offset
            let length = index < count ? unsafe max(lengths[index], 0) : 0
            datagrams[index] = PacketDescriptor(
                offset: length > 0 ? offset + UInt32(Header.sealedLength) : offset, length: UInt32(length))
        }
    }
}
