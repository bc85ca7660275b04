// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import NetworkAddresses
import TunnelIO
package import TunnelSystem

/// The packets of a bulk transfer, and the receiver that compares them.
final class BulkTransfer: Sendable {
    static let packetCount = 1024
    private static let port: UInt16 = 5001
    /// The bytes of the IPv4 and UDP headers.
    private static let headerByteCount = 28

    /// The packets, which are sent in turn: UDP in IPv4, each as long as the MTU allows. No two are alike, and the receiver
    /// knows every byte: behind the headers are the packet's number, and random bytes.
    let packets: [[UInt8]]
    let counters: Monitor<BulkCounters>

    init(from source: IPAddress, to destination: IPAddress, mtu: Int) {
        let byteCount = mtu - Self.headerByteCount - 2
        let random = (0..<byteCount + Self.packetCount).map { _ in UInt8.random(in: 0 ... .max) }
        packets = (0..<Self.packetCount).map { number in
            PacketBuilder.udp(
                from: source, port: Self.port, to: destination, port: Self.port,
                payload: [UInt8(number >> 8), UInt8(number & 0xff)] + random[number..<number + byteCount])
        }
        counters = Monitor(BulkCounters(packetByteCount: mtu))
    }

    /// The packet with a sequence number.
    func packet(_ sequence: UInt64) -> [UInt8] { packets[Int(sequence % UInt64(Self.packetCount))] }

    /// Compares each byte of a packet that arrived, and counts it. Ignores packets of another length.
    func receive(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == packets[0].count else { return }
        let number = unsafe UInt64(bytes[Self.headerByteCount]) << 8 | UInt64(bytes[Self.headerByteCount + 1])
        let isIntact = unsafe packet(number).withUnsafeBytes { expected in
            guard let sent = expected.baseAddress, let received = bytes.baseAddress else { return false }
            return unsafe memcmp(sent, received, bytes.count) == 0
        }
        counters.update { $0.count(number, isIntact: isIntact) }
    }
}

/// The figures of a bulk transfer.
package struct BulkCounters: Sendable {
    let packetByteCount: Int
    var (sent, received, damaged, outOfOrder): (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    /// The sequence number after the highest one that arrived, or that counts as lost.
    var next: UInt64 = 0
    var elapsed = Duration.zero

    init(packetByteCount: Int) { self.packetByteCount = packetByteCount }

    /// Counts a packet that arrived.
    /// - Returns: Whether to wake the sender.
    mutating func count(_ number: UInt64, isIntact: Bool) -> Bool {
        received += 1
        // The packets on the way are those from `next` to `sent`, and they are fewer than there are numbers.
        let ahead = (number &- next) % UInt64(BulkTransfer.packetCount)
        if !isIntact {
            damaged += 1
        } else if ahead >= sent - min(next, sent) {
            // A packet that was given up, or came late.
            outOfOrder += 1
        } else {
            next += ahead + 1
        }
        return received % 16 == 0 || next >= sent
    }

    package var bytes: UInt64 { received * UInt64(packetByteCount) }
    var lost: UInt64 { sent - min(received, sent) }
    var onTheWay: UInt64 { sent - min(next, sent) }
    /// The packets before the highest one that arrived, or that counts as lost, which have not arrived.
    var missing: UInt64 { next - min(received, next) }
    /// IP packets inside the tunnel, headers included.
    var bitsPerSecond: Double { Self.rate(bytes, elapsed) }

    static func rate(_ bytes: UInt64, _ time: Duration) -> Double {
        Double(bytes) * 8000 / max(time.milliseconds, 1e-3)
    }

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
    /// The least and the greatest number of packets that are given to the tunnel together.
    private static let bursts: ClosedRange<UInt64> = 32...256
    /// The time without an arrival after which packets on the way count as lost, in nanoseconds.
    private static let patience: Int64 = 100_000_000

    /// Sends packets to another host through the tunnel, and compares every byte there.
    ///
    /// No more than two bursts of packets are on the way, so that no queue overflows: the transfer measures the tunnel. A burst is
    /// longer than the one before it, but half as long after a loss.
    /// - Parameters:
    ///   - silence: The time without an arrival that ends the transfer.
    ///   - progress: Called each 0.1 s with the rates of all these intervals, in bits per second.
    /// - Throws: `CommandFailure` if the receiver is silent, or receives no packets or damaged ones.
    package func send(
        to receiver: DemoHost, for duration: Duration, silence: Duration = .seconds(3),
        progress: ([Double], Duration) -> Void = { _, _ in }
    ) throws -> BulkCounters {
        let transfer = BulkTransfer(
            from: try address(isIPv6: false), to: try receiver.address(isIPv6: false), mtu: mtu)
        let most = Int(Self.bursts.upperBound)
        let batch = try PacketBatch(packetCapacity: most, byteCapacity: most * mtu)
        unsafe receiver.tun.responder = { packet in
            unsafe transfer.receive(packet)
            return nil
        }
        defer { receiver.answerPings() }
        let start = ContinuousClock.now
        var (seen, burst, heard) = (transfer.counters.withValue { $0 }, Self.bursts.lowerBound, start)
        var (sample, rates) = ((time: start, bytes: UInt64(0)), [Double]())
        while true {
            seen.elapsed = ContinuousClock.now - start
            let isEnding = seen.elapsed >= duration
            if isEnding, seen.onTheWay == 0, seen.received > 0 { break }
            if !isEnding, seen.onTheWay <= burst {
                batch.removeAll()
                for sequence in seen.sent..<seen.sent + burst { batch.append(copying: transfer.packet(sequence)) }
                seen.sent += burst
                // The receiver knows what is on the way before it arrives.
                transfer.counters.withValue { $0.sent = seen.sent }
                guard tun.inject(batch) == batch.count else {
                    throw CommandFailure("the TUN of \(name) refused packets")
                }
            }
            let (former, room) = (seen, isEnding ? 0 : burst)
            let arrived = transfer.counters.wait(until: LaneClock.now() + Self.patience) { counters in
                counters.received > 0 && counters.onTheWay <= room ? counters : nil
            }
            if let arrived {
                seen = arrived
            } else {
                transfer.counters.withValue { counters in
                    if counters.received == former.received { counters.next = counters.sent }
                    seen = counters
                }
            }
            burst = seen.missing > former.missing ? burst / 2 : burst + 4
            burst = min(max(burst, Self.bursts.lowerBound), Self.bursts.upperBound)
            let now = ContinuousClock.now
            if seen.received > former.received { heard = now }
            guard now - heard <= silence else {
                throw CommandFailure("the far end of the transfer was silent for \(Figure.seconds(silence))")
            }
            if now - sample.time >= .milliseconds(100) {
                try Task.checkCancellation()
                rates.append(BulkCounters.rate(seen.bytes - sample.bytes, now - sample.time))
                sample = (now, seen.bytes)
                progress(rates, now - start)
            }
        }
        guard seen.damaged == 0 else {
            throw CommandFailure("\(seen.damaged) packets arrived with other bytes than were sent")
        }
        return seen
    }

    /// The steps of two transfers: to another host, and from it.
    /// - Returns: The number of bytes that were compared.
    package func showTransfers(
        with other: DemoHost, for duration: Duration, _ report: DemoReport
    ) throws -> UInt64 {
        var bytes: UInt64 = 0
        for (step, sender, receiver) in [("upload", self, other), ("download", other, self)] {
            report.view.begin(step)
            let transfer = try sender.send(to: receiver, for: duration) { rates, elapsed in
                let line = Sparkline.text(rates, width: 30)
                report.view.progress("\(Figure.rate(rates.last ?? 0))  \(line)  \(Figure.seconds(elapsed))")
            }
            report["transfer.\(step)"] = transfer.json
            report.summarize("\(sender.name) to \(receiver.name)", Figure.rate(transfer.bitsPerSecond))
            bytes += transfer.bytes
            report.view.finish(transfer.text)
        }
        return bytes
    }
}
