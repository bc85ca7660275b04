// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// swift-format-ignore-file: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation

public import CCulvert
import TunnelIO

// The packet functions, without a tunnel. culvert.h documents each function.

@c @implementation
public func culvert_packets_open(
    _ descriptor: Int32, _ format: culvert_format, _ mtu: UInt32, _ packets: UnsafeMutablePointer<OpaquePointer?>?,
    _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe packets?.pointee = nil
    return unsafe reporting(to: error) { () throws(Failure) in
        guard let packets = unsafe packets else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is nowhere to put the packets: they could never be freed")
        }
        let device = try PacketDescriptor(descriptor, format: format, mtu: mtu).open()
        do throws(TunnelIOError) {
            let port = try PacketPort(device)
            unsafe packets.pointee = OpaquePointer(Unmanaged.passRetained(port).toOpaque())
        } catch {
            device.close()
            throw Failure(error)
        }
    }
}

@c @implementation
public func culvert_packets_read(
    _ packets: OpaquePointer?, _ buffer: UnsafeMutableRawPointer?, _ capacity: Int, _ timeout: Int64,
    _ length: UnsafeMutablePointer<Int>?, _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe length?.pointee = 0
    return unsafe reporting(to: error) { () throws(Failure) in
        let port = try unsafe port(packets)
        guard let length = unsafe length else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is nowhere to put the packet's length")
        }
        // A size beyond the signed ones arrives as a negative one.
        guard capacity >= 0, unsafe buffer != nil || capacity == 0 else {
            throw Failure(CULVERT_INVALID_ARGUMENT, "there is no buffer of \(UInt(bitPattern: capacity)) bytes")
        }
        let room = unsafe UnsafeMutableRawBufferPointer(start: buffer, count: capacity)
        let count: Int?
        do throws(TunnelIOError) {
            count = try unsafe port.receive(into: room, timeout: timeout < 0 ? nil : .milliseconds(timeout))
        } catch {
            throw Failure(error)
        }
        guard let count else { throw Failure(CULVERT_TIMED_OUT, "no packet came in time") }
        unsafe length.pointee = count
        guard count <= capacity else {
            throw Failure(CULVERT_TRUNCATED, "the packet has \(count) bytes, and the buffer has \(capacity)")
        }
    }
}

@c @implementation
public func culvert_packets_write(
    _ packets: OpaquePointer?, _ packet: UnsafeRawPointer?, _ length: Int, _ error: UnsafeMutablePointer<culvert_error>?
) -> culvert_result {
    unsafe reporting(to: error) { () throws(Failure) in
        let port = try unsafe port(packets)
        guard let packet = unsafe packet, (1...65_535).contains(length) else {
            throw Failure(
                CULVERT_INVALID_ARGUMENT,
                "a packet must have 1 to 65535 bytes, not \(UInt(bitPattern: length)), and must not be null")
        }
        let isTaken: Bool
        do throws(TunnelIOError) {
            isTaken = try unsafe port.send(gathering: [UnsafeRawBufferPointer(start: packet, count: length)])
        } catch {
            throw Failure(error)
        }
        guard isTaken else {
            throw Failure(
                CULVERT_REFUSED,
                "the packet was refused: the interface is down, its queue is full, or the bytes are not an IP packet")
        }
    }
}

@c @implementation
public func culvert_packets_interrupt(_ packets: OpaquePointer?, _ interrupted: Bool) -> culvert_result {
    unsafe reporting(to: nil) { () throws(Failure) in
        let port = try unsafe port(packets)
        if interrupted { port.interrupt() } else { port.resetInterrupt() }
    }
}

@c @implementation
public func culvert_packets_close(_ packets: OpaquePointer?) -> culvert_result {
    unsafe reporting(to: nil) { () throws(Failure) in try unsafe port(packets).close() }
}

@c @implementation
public func culvert_packets_free(_ packets: OpaquePointer?) -> culvert_result {
    guard let packets = unsafe packets else { return culvert_result(CULVERT_OK) }
    let port = unsafe Unmanaged<PacketPort>.fromOpaque(UnsafeRawPointer(packets))
    unsafe port.takeUnretainedValue().close()
    unsafe port.release()
    return culvert_result(CULVERT_OK)
}

@unsafe
private func port(_ packets: OpaquePointer?) throws(Failure) -> PacketPort {
    guard let packets = unsafe packets else { throw Failure(CULVERT_INVALID_ARGUMENT, "there are no packets: null") }
    return unsafe Unmanaged<PacketPort>.fromOpaque(UnsafeRawPointer(packets)).takeUnretainedValue()
}
