// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A bounded batch of packets in one region of memory, which is allocated once and reused.
///
/// A packet is a descriptor (offset and length) of bytes in the region. So packets may be in slots of equal size,
/// adjacent, or segments of one superframe. A packet never moves once it is appended; its descriptor may be narrowed in
/// place, for example to the plaintext inside a datagram. A descriptor of length zero marks a packet that was consumed.
///
/// A batch belongs to one thread at a time and does no locking. Nothing here allocates after `init`.
@safe
public final class PacketBatch {
    /// The most packets a batch can describe.
    public let packetCapacity: Int
    /// The bytes of the region.
    public let byteCapacity: Int
    /// The first byte of the region, aligned to a page.
    @usableFromInline package let base: UnsafeMutableRawPointer
    /// The number of packets appended since ``removeAll()``.
    public private(set) var count: Int {
        @inlinable get { unsafe marks.pointee.count }
        set { unsafe marks.pointee.count = newValue }
    }
    /// The first byte that no packet uses yet.
    public private(set) var tail: Int {
        @inlinable get { unsafe marks.pointee.tail }
        set { unsafe marks.pointee.tail = newValue }
    }

    /// The members that change with each packet. They are behind a pointer, since the run time checks each access to a
    /// class's variable.
    @usableFromInline
    struct Marks {
        @usableFromInline var count = 0
        @usableFromInline var tail = 0
        var readsOnce = false
    }

    @usableFromInline let marks: UnsafeMutablePointer<Marks>
    @usableFromInline let descriptors: UnsafeMutablePointer<PacketDescriptor>
    @usableFromInline let endpointStorage: UnsafeMutablePointer<Endpoint>
    private let mapping: PageMapping
    /// Whether devices and sockets of the system return after the first call that has filled the batch with something,
    /// and do not ask for more. A single packet is then processed sooner.
    package var readsOnce: Bool {
        get { unsafe marks.pointee.readsOnce }
        set { unsafe marks.pointee.readsOnce = newValue }
    }
    /// The largest value that ``tail`` had at a ``removeAll()`` since the last ``forgetReach()``.
    private var farthestTail = 0

    /// Creates a batch of at most `packetCapacity` packets in `byteCapacity` bytes, rounded up to whole pages.
    ///
    /// Pages are zero and cost no memory until they are used. To read packets into the batch, use at least
    /// ``minimumReadBytes`` or the default; a smaller batch can only be written.
    /// - Throws: `.invalidBatch` unless there are 1 to 1,048,576 packets in 1 byte to 1 GiB; `.outOfMemory`.
    public init(packetCapacity: Int = 128, byteCapacity: Int = 256 << 10) throws(TunnelIOError) {
        // Descriptors have 32-bit offsets, and separate memory.
        guard (1...1 << 20).contains(packetCapacity), (1...1 << 30).contains(byteCapacity) else {
            throw TunnelIOError(
                .invalidBatch(
                    packets: packetCapacity, bytes: byteCapacity,
                    expected: "one of 1 to 1,048,576 packets in 1 byte to 1 GiB"))
        }
        mapping = try PageMapping(byteCount: byteCapacity)
        self.packetCapacity = packetCapacity
        self.byteCapacity = mapping.byteCount
        unsafe base = mapping.base
        unsafe marks = .allocate(capacity: 1)
        unsafe marks.initialize(to: Marks())
        unsafe descriptors = .allocate(capacity: packetCapacity)
        unsafe descriptors.initialize(repeating: PacketDescriptor(offset: 0, length: 0), count: packetCapacity)
        unsafe endpointStorage = .allocate(capacity: packetCapacity)
        unsafe endpointStorage.initialize(repeating: Endpoint.unspecified, count: packetCapacity)
    }

    deinit {
        unsafe marks.deallocate()
        unsafe descriptors.deallocate()
        unsafe endpointStorage.deallocate()
    }

    /// Removes every packet. Bytes are unchanged.
    public func removeAll() {
        if tail > farthestTail { farthestTail = tail }
        count = 0
        tail = 0
        mapping.reclaim()
    }

    // MARK: - Memory

    /// The number of bytes, from the start of the region, that were used since ``forgetReach()``.
    package var reach: Int { max(farthestTail, tail) }

    /// Removes every packet, and resets ``reach``.
    package func forgetReach() {
        removeAll()
        farthestTail = 0
    }

    /// Removes every packet and returns the memory of the region to the system, except the first `workingBytes`.
    ///
    /// You can fill the batch again as before. Each page then costs memory once it is touched.
    public func releasePages(beyond workingBytes: Int) {
        forgetReach()
        mapping.release(from: workingBytes)
    }

    /// Whether no packet has been appended.
    public var isEmpty: Bool { count == 0 }

    /// The position of packet `index`. Setting it narrows or consumes the packet.
    public subscript(index: Int) -> PacketDescriptor {
        @inlinable get {
            precondition(index >= 0 && index < count)
            return unsafe descriptors[index]
        }
        @inlinable set {
            precondition(index >= 0 && index < count)
            precondition(Int(newValue.offset) + Int(newValue.length) <= byteCapacity)
            unsafe descriptors[index] = newValue
        }
    }

    /// The remote endpoint of packet `index`: the source of a received datagram, or the destination of one to send.
    public subscript(endpoint index: Int) -> Endpoint {
        @inlinable get {
            precondition(index >= 0 && index < count)
            return unsafe endpointStorage[index]
        }
        set {
            precondition(index >= 0 && index < count)
            unsafe endpointStorage[index] = newValue
        }
    }

    /// The bytes of packet `index`, valid until ``removeAll()``.
    @unsafe
    public func bytes(of index: Int) -> UnsafeMutableRawBufferPointer {
        let descriptor = self[index]
        return unsafe UnsafeMutableRawBufferPointer(
            start: base + Int(descriptor.offset), count: Int(descriptor.length))
    }

    /// The free bytes after ``tail``.
    @unsafe
    @inlinable
    public var freeBytes: UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(start: base + tail, count: byteCapacity - tail)
    }

    /// Appends a packet at `offset`. ``tail`` moves to its end if that is further.
    /// - Returns: the packet's index, or `nil` if the batch is full or the packet is not within the region.
    @inlinable
    @discardableResult
    public func append(offset: Int, length: Int, endpoint: Endpoint = .unspecified) -> Int? {
        let index = count
        guard index < packetCapacity, offset >= 0, length >= 0, length <= byteCapacity - offset else { return nil }
        unsafe descriptors[index] = PacketDescriptor(offset: UInt32(offset), length: UInt32(length))
        unsafe endpointStorage[index] = endpoint
        unsafe marks.pointee.tail = max(tail, offset + length)
        unsafe marks.pointee.count = index + 1
        return index
    }

    /// Appends a copy of `packet` at ``tail``.
    /// - Returns: the packet's index, or `nil` if there is no room.
    @discardableResult
    public func append(copying packet: UnsafeRawBufferPointer, endpoint: Endpoint = .unspecified) -> Int? {
        guard count < packetCapacity, packet.count <= byteCapacity - tail else { return nil }
        if let start = packet.baseAddress {
            unsafe (base + tail).copyMemory(from: start, byteCount: packet.count)
        }
        return append(offset: tail, length: packet.count, endpoint: endpoint)
    }

    /// Appends a copy of `packet` at ``tail``.
    /// - Returns: the packet's index, or `nil` if there is no room.
    @discardableResult
    public func append(copying packet: [UInt8], endpoint: Endpoint = .unspecified) -> Int? {
        unsafe packet.withUnsafeBytes { unsafe append(copying: $0, endpoint: endpoint) }
    }

    /// A copy of the bytes of packet `index`.
    public func copy(of index: Int) -> [UInt8] {
        unsafe Array(bytes(of: index))
    }

    /// Moves ``tail`` forward to a multiple of `alignment`, a power of two, but not beyond the end of the region.
    public func alignTail(to alignment: Int) {
        tail = min((tail + alignment - 1) & ~(alignment - 1), byteCapacity)
    }

    /// Drops the last packets so that `newCount` are left. ``tail`` stays.
    public func truncate(to newCount: Int) {
        precondition(newCount >= 0 && newCount <= count)
        count = newCount
    }
}

/// The position of a packet in the region of its batch.
public struct PacketDescriptor: Hashable, Sendable {
    /// The first byte, from the start of the region.
    public var offset: UInt32
    /// The number of bytes; zero once the packet was consumed.
    public var length: UInt32

    /// A descriptor.
    @inlinable
    public init(offset: UInt32, length: UInt32) {
        self.offset = offset
        self.length = length
    }
}
