// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import TunnelIO

// Small programs that run inside a namespace. iperf3 sends each packet with one system call, so it is too slow for these
// measurements.

/// Sends datagrams of one size as fast as the system accepts them, in batches, without segmentation offload.
enum UDPFlood {
    static let command = "udp-flood"
    private static let batch = 64

    /// Prints how many datagrams were sent.
    static func run(_ arguments: ArraySlice<String>) throws {
        let words = Array(arguments)
        guard words.count == 4, let address = try? IPAddress(words[0]), !address.isIPv6, let port = UInt16(words[1]),
            let size = Int(words[2]), (1...1472).contains(size), let seconds = Int(words[3]), (1...60).contains(seconds)
        else { throw UsageError(message: "\(command) ADDRESS PORT BYTES SECONDS") }
        let socket = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
        defer { socket.close() }
        let datagrams = try PacketBatch(packetCapacity: batch, byteCapacity: batch * 2048)
        let target = Endpoint(address: address, port: port)
        let bytes = [UInt8](repeating: 0x5a, count: size)
        for _ in 0..<batch { datagrams.append(copying: bytes, endpoint: target) }
        let end = nanoseconds() + seconds * 1_000_000_000
        var sent = 0
        while nanoseconds() < end {
            sent += try socket.send(datagrams, in: 0..<batch).sent
        }
        print(sent)
    }
}

/// Counts the datagrams that arrive at a port.
enum UDPCount {
    static let command = "udp-count"

    /// Prints a line when it listens, and at the end the number of datagrams and the seconds from first to last.
    static func run(_ arguments: ArraySlice<String>) throws {
        let words = Array(arguments)
        guard words.count == 2, let port = UInt16(words[0]), let seconds = Int(words[1]), (1...60).contains(seconds)
        else { throw UsageError(message: "\(command) PORT SECONDS") }
        var offload = OffloadOptions()
        offload.udpSegmentation = false
        let socket = try LinuxUDPSocket(isIPv6: false, port: port, offload: offload)
        defer { socket.close() }
        let datagrams = try PacketBatch(packetCapacity: 1024, byteCapacity: 16 * 65_600 + 65_536)
        // Immediately, without buffering.
        FileHandle.standardOutput.write(Data("listening\n".utf8))
        // Extra time for the sender's start, and for the last datagrams.
        let limit = nanoseconds() + (seconds + 5) * 1_000_000_000
        var count = 0
        var first = 0
        var last = 0
        while nanoseconds() < limit {
            guard count == 0 || nanoseconds() - last < 500_000_000 else { break }
            guard UDPWait.readable(socket.readiness, milliseconds: 100) else { continue }
            datagrams.removeAll()
            let came = try socket.receive(into: datagrams)
            guard came > 0 else { continue }
            last = nanoseconds()
            // No time has passed before the very first datagrams, so they do not count.
            if first == 0 { first = last } else { count += came }
        }
        print(count, Double(max(last - first, 1)) / 1e9)
    }
}

/// Waiting for one descriptor.
enum UDPWait {
    static func readable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&request, 1, milliseconds) > 0
    }
}
