// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import NetworkAddresses
import TunnelIO
package import TunnelSystem

/// The packets of a bulk transfer: UDP in IPv4, each as long as the MTU allows. No two packets are alike, and the receiver
/// knows every byte: behind the headers are the sequence number, and words of a fixed pattern, each combined with a hash of
/// the sequence number.
struct BulkPacket: Sendable {
    private static let port: UInt16 = 5001
    /// The bytes of the IPv4 and UDP headers.
    private static let headerByteCount = 28
    let byteCount: Int
    private let header: [UInt8]
    private let pattern: [UInt64]

    init(from source: IPAddress, to destination: IPAddress, mtu: Int) {
        let count = max(mtu - Self.headerByteCount, 16) / 8
        var packet = PacketBuilder.udp(
            from: source, port: Self.port, to: destination, port: Self.port,
            payload: Array(repeating: 0, count: count * 8))
        // Without a UDP checksum, which IPv4 allows: the comparison is stricter than any sum.
        packet.replaceSubrange(26..<28, with: [0, 0])
        (byteCount, header) = (packet.count, Array(packet.prefix(Self.headerByteCount)))
        pattern = (1..<UInt64(count)).map { Self.mix($0) }
    }

    /// Writes a packet to `bytes`, which has room for ``byteCount``.
    func write(_ sequence: UInt64, to bytes: UnsafeMutableRawBufferPointer) {
        unsafe header.withUnsafeBytes { unsafe bytes.copyMemory(from: $0) }
        unsafe bytes.storeBytes(of: sequence, toByteOffset: header.count, as: UInt64.self)
        let (mask, start) = (Self.mix(sequence), header.count + 8)
        for index in pattern.indices {
            unsafe bytes.storeBytes(of: pattern[index] ^ mask, toByteOffset: start + 8 * index, as: UInt64.self)
        }
    }

    /// The sequence number of a packet, and whether every byte is as it was sent; `nil` if the packet has another length.
    func read(_ bytes: UnsafeRawBufferPointer) -> (sequence: UInt64, isIntact: Bool)? {
        guard bytes.count == byteCount else { return nil }
        let sequence = unsafe bytes.loadUnaligned(fromByteOffset: header.count, as: UInt64.self)
        var difference: UInt64 = 0
        for index in header.indices { unsafe difference |= UInt64(header[index] ^ bytes[index]) }
        let (mask, start) = (Self.mix(sequence), header.count + 8)
        for index in pattern.indices {
            let word = unsafe bytes.loadUnaligned(fromByteOffset: start + 8 * index, as: UInt64.self)
            difference |= word ^ pattern[index] ^ mask
        }
        return (sequence, difference == 0)
    }

    /// A number that looks random (the finaliser of SplitMix64).
    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value &+ 0x9e37_79b9_7f4a_7c15
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}

/// A bulk transfer through the tunnel: the counters of its receiver, and the result.
package struct BulkTransfer {
    let packet: BulkPacket
    var (sent, received, damaged, outOfOrder): (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    /// The sequence number after the highest one that arrived.
    var next: UInt64 = 0
    var elapsed = Duration.zero

    init(_ packet: BulkPacket) { self.packet = packet }

    /// Counts a packet that arrived.
    /// - Returns: Whether to wake the sender.
    mutating func count(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let (sequence, isIntact) = unsafe packet.read(bytes) else { return false }
        received += 1
        if !isIntact {
            damaged += 1
        } else if sequence < next {
            outOfOrder += 1
        } else {
            next = sequence &+ 1
        }
        return received % 16 == 0
    }

    package var bytes: UInt64 { received * UInt64(packet.byteCount) }
    var lost: UInt64 { sent - min(received, sent) }
    /// IP packets inside the tunnel, headers included.
    var bitsPerSecond: Double { Double(bytes) * 8 / max(elapsed.milliseconds / 1000, 1e-6) }

    var text: String {
        "\(Figure.rate(bitsPerSecond)): \(Figure.bytes(bytes)) in \(Figure.grouped(received)) packets, "
            + "\(Figure.seconds(elapsed)), \(Figure.grouped(lost)) lost, \(Figure.grouped(damaged)) damaged"
    }

    package var json: JSON {
        [
            "packetsSent": .integer(sent), "packetsReceived": .integer(received), "packetsLost": .integer(lost),
            "packetsDamaged": .integer(damaged), "packetsOutOfOrder": .integer(outOfOrder), "bytes": .integer(bytes),
            "seconds": .decimal(elapsed.milliseconds / 1000, places: 3),
            "megabitsPerSecond": .decimal(bitsPerSecond / 1e6, places: 1),
        ]
    }
}

extension DemoHost {
    /// The most packets that are given to the tunnel together.
    private static let burst = 32
    /// The time without an arrival after which packets on the way count as lost, and that between two samples of the rate, in
    /// nanoseconds.
    private static let interval: Int64 = 100_000_000

    /// Sends packets to another host through the tunnel, and compares every byte there.
    ///
    /// No more than a window of packets is on the way, so that no queue overflows: the transfer measures the tunnel. The window
    /// grows with each burst, and halves when packets are lost.
    /// - Parameters:
    ///   - silence: The time without an arrival that ends the transfer.
    ///   - progress: Called each 0.1 s with the rates of all these intervals, in bits per second.
    /// - Throws: `CommandFailure` if the receiver is silent, or receives no packets or damaged ones.
    package func send(
        to receiver: DemoHost, mtu: Int, for duration: Duration, silence: Duration = .seconds(3),
        progress: ([Double], Duration) -> Void = { _, _ in }
    ) throws -> BulkTransfer {
        let packet = BulkPacket(from: try address(isIPv6: false), to: try receiver.address(isIPv6: false), mtu: mtu)
        let batch = try PacketBatch(packetCapacity: Self.burst, byteCapacity: Self.burst * packet.byteCount)
        receiver.state.withValue { $0.bulk = BulkTransfer(packet) }
        func arrivals(_ state: inout State) -> (received: UInt64, next: UInt64) {
            (state.bulk?.received ?? 0, state.bulk?.next ?? 0)
        }
        let start = LaneClock.now()
        let (end, step) = (start + Int64(duration.milliseconds * 1e6), UInt64(Self.burst))
        var (sent, abandoned, window) = (UInt64(0), UInt64(0), 2 * step)
        var seen = (received: UInt64(0), next: UInt64(0))
        var (heard, sampled, samples) = (start, (at: start, received: UInt64(0)), [Double]())
        while true {
            let now = LaneClock.now()
            if now - sampled.at >= Self.interval {
                try Task.checkCancellation()
                let bits = Double((seen.received - sampled.received) * UInt64(packet.byteCount) * 8)
                samples.append(bits * 1e9 / Double(now - sampled.at))
                sampled = (now, seen.received)
                progress(samples, .nanoseconds(now - start))
            }
            let (isEnding, onTheWay, former) = (now >= end, sent - max(seen.next, abandoned), seen)
            if isEnding, onTheWay == 0, seen.received > 0 { break }
            if !isEnding, onTheWay + step <= window {
                batch.removeAll()
                for index in 0..<Self.burst where batch.append(offset: batch.tail, length: packet.byteCount) != nil {
                    unsafe packet.write(sent + UInt64(index), to: batch.bytes(of: index))
                }
                guard tun.inject(batch) == Self.burst else {
                    throw CommandFailure("the TUN of \(name) refused packets")
                }
                sent += step
                window = min(window + 4, 512)
                seen = receiver.state.withValue(arrivals)
            } else {
                // To wake up costs time: half of the window is sent then.
                let room = isEnding ? 0 : window / 2
                let reached = receiver.state.wait(until: now + Self.interval) { state in
                    sent - max(arrivals(&state).next, abandoned) <= room && sent > abandoned ? arrivals(&state) : nil
                }
                seen = reached ?? receiver.state.withValue(arrivals)
                // The next probe is one burst: more would fill the queue of a host that stands still.
                if reached == nil, seen == former { (abandoned, window) = (sent, step) }
            }
            if seen.next - min(seen.received, seen.next) > former.next - min(former.received, former.next) {
                window = max(window / 2, 2 * step)
            }
            if seen.received > former.received { heard = LaneClock.now() }
            guard LaneClock.now() - heard <= Int64(silence.milliseconds * 1e6) else {
                throw CommandFailure("the far end of the transfer was silent for \(Figure.seconds(silence))")
            }
        }
        var transfer = receiver.state.withValue { $0.bulk } ?? BulkTransfer(packet)
        (transfer.sent, transfer.elapsed) = (sent, .nanoseconds(LaneClock.now() - start))
        guard transfer.damaged == 0 else {
            throw CommandFailure("\(transfer.damaged) packets arrived with other bytes than were sent")
        }
        return transfer
    }

    /// The steps of two transfers: to another host, and from it.
    /// - Returns: The number of bytes that were compared.
    package func showTransfers(
        with other: DemoHost, mtu: Int, for duration: Duration, _ report: DemoReport
    ) throws -> UInt64 {
        var bytes: UInt64 = 0
        for (step, sender, receiver) in [("upload", self, other), ("download", other, self)] {
            report.view.begin(step)
            let transfer = try sender.send(to: receiver, mtu: mtu, for: duration) { samples, elapsed in
                let line = Sparkline.text(samples, width: 30)
                report.view.progress("\(Figure.rate(samples.last ?? 0))  \(line)  \(Figure.seconds(elapsed))")
            }
            report["transfer.\(step)"] = transfer.json
            report.summarize("\(sender.name) to \(receiver.name)", Figure.rate(transfer.bitsPerSecond))
            bytes += transfer.bytes
            report.view.finish(transfer.text)
        }
        return bytes
    }
}
