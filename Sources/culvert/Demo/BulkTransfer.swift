// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelIO

/// Sends packets from one host to the other through the tunnel, as fast as the far end acknowledges them.
///
/// No more than a window of packets is under way, so that no queue overflows and what is measured is the tunnel, not how
/// fast packets can be thrown away. The window grows with each acknowledgement and halves when packets are missing.
struct BulkTransfer {
    struct Result {
        var sent: UInt64 = 0
        var received: UInt64 = 0
        var bytes: UInt64 = 0
        var damaged: UInt64 = 0
        var outOfOrder: UInt64 = 0
        var elapsed: Duration = .zero
        /// Bits per second of each tenth of a second.
        var samples: [Double] = []

        var lost: UInt64 { sent - min(received, sent) }
        /// IP packets inside the tunnel, headers included.
        var bitsPerSecond: Double {
            let seconds = elapsed.milliseconds / 1000
            return seconds > 0 ? Double(bytes) * 8 / seconds : 0
        }
    }

    private static let burst: UInt64 = 32
    private static let smallestWindow: UInt64 = 64
    private static let largestWindow: UInt64 = 512
    private static let sampleInterval: Int64 = 100_000_000
    /// How long nothing may be acknowledged before the far end is asked.
    private static let patience: Int64 = 100_000_000

    /// How long the far end may be silent.
    var silenceLimit: Duration = .seconds(3)
    private let sender: DemoHost
    private let receiver: DemoHost
    private let run: UInt32
    private let packet: BulkPacket
    private let batch: PacketBatch
    private var sent: UInt64 = 0
    private var acknowledged: BulkAcknowledgement
    private var window = BulkTransfer.smallestWindow
    /// Losses among packets before this one have halved the window already.
    private var recoveredAt: UInt64 = 0
    private var samples: [Double] = []

    /// - Parameter run: tells transfers apart; not zero.
    /// - Throws: `DemoFailure` when there is no memory.
    init(run: UInt32, from sender: DemoHost, to receiver: DemoHost) throws(DemoFailure) {
        self.sender = sender
        self.receiver = receiver
        self.run = run
        packet = BulkPacket(from: sender.v4, to: receiver.v4, mtu: DemoHost.mtu)
        acknowledged = BulkAcknowledgement(run: run, received: 0, next: 0)
        do throws(TunnelIOError) {
            batch = try PacketBatch(
                packetCapacity: Int(BulkTransfer.burst), byteCapacity: Int(BulkTransfer.burst) * packet.byteCount)
        } catch {
            throw DemoFailure("no memory for the transfer: \(error)")
        }
    }

    /// Sends for this long, and waits until the rest has arrived or is known to be lost.
    /// - Parameter onSample: gets all samples so far, and the elapsed time.
    /// - Throws: `DemoFailure` when the far end falls silent.
    mutating func send(
        for duration: Duration, onSample: ([Double], Duration) -> Void
    ) throws(DemoFailure) -> Result {
        let start = LaneClock.now()
        let end = start + duration.nanoseconds
        var heardAt = start
        var askedAt = start
        var sampled = (at: start, received: UInt64(0))
        while true {
            let now = LaneClock.now()
            if now - sampled.at >= BulkTransfer.sampleInterval {
                let bits = Double(acknowledged.received - sampled.received) * Double(packet.byteCount * 8)
                samples.append(bits * 1e9 / Double(now - sampled.at))
                sampled = (now, acknowledged.received)
                onSample(samples, .nanoseconds(now - start))
            }
            let isEnding = now >= end
            if isEnding, acknowledged.next == sent { break }
            if !isEnding, hasRoom(after: acknowledged) {
                try sendBurst()
                continue
            }
            // At the end the far end is asked at once: its last packets may not fill an acknowledgement.
            if now - max(heardAt, askedAt) >= BulkTransfer.patience || (isEnding && askedAt < end) {
                sendProbe()
                askedAt = now
            }
            let wakeAt = min(
                max(heardAt, askedAt) + BulkTransfer.patience, sampled.at + BulkTransfer.sampleInterval,
                isEnding ? Int64.max : end)
            if awaitAcknowledgement(until: wakeAt, everyOne: isEnding) {
                heardAt = LaneClock.now()
            } else if now - heardAt > silenceLimit.nanoseconds {
                throw DemoFailure("the far end of the transfer was silent for \(Figure.seconds(silenceLimit))")
            }
        }
        return result(elapsed: .nanoseconds(LaneClock.now() - start))
    }

    private func hasRoom(after acknowledgement: BulkAcknowledgement) -> Bool {
        sent - acknowledgement.next + BulkTransfer.burst <= window
    }

    private mutating func sendBurst() throws(DemoFailure) {
        batch.removeAll()
        for _ in 0..<BulkTransfer.burst { append(.data) }
        guard sender.tun.inject(batch) == Int(BulkTransfer.burst) else {
            throw DemoFailure("the TUN of \(sender.name) refused packets")
        }
    }

    private mutating func sendProbe() {
        batch.removeAll()
        append(.probe)
        sender.tun.inject(batch)
    }

    private mutating func append(_ kind: BulkPacket.Kind) {
        let offset = batch.tail
        guard batch.append(offset: offset, length: packet.byteCount) != nil else { return }
        unsafe packet.write(sent, run: run, kind: kind, to: batch.bytes(of: batch.count - 1))
        if kind == .data { sent += 1 }
    }

    /// Waits for an acknowledgement: any at all, or one that makes room for a burst, since to be woken costs time.
    /// - Returns: whether one came.
    private mutating func awaitAcknowledgement(until deadline: Int64, everyOne: Bool) -> Bool {
        let previous = acknowledged
        let transfer = self
        func news(_ state: DemoHost.State) -> BulkAcknowledgement? {
            let news = state.acknowledgement
            // More than was sent is nothing that this transfer's far end would say.
            return news.run == transfer.run && news != previous && news.next <= transfer.sent ? news : nil
        }
        let awaited = sender.state.wait(until: deadline) { state in
            news(state).flatMap { everyOne || transfer.hasRoom(after: $0) ? $0 : nil }
        }
        guard let latest = awaited ?? sender.state.withValue({ news($0) }) else { return false }
        if latest.lost > acknowledged.lost, latest.next > recoveredAt {
            window = max(window / 2, BulkTransfer.smallestWindow)
            recoveredAt = sent
        } else {
            window = min(window + 4, BulkTransfer.largestWindow)
        }
        acknowledged = latest
        return true
    }

    private func result(elapsed: Duration) -> Result {
        let seen = receiver.state.withValue { $0.receiver }
        var result = Result()
        result.sent = sent
        if seen.run == run {
            result.received = seen.received
            result.bytes = seen.bytes
            result.damaged = seen.damaged
            result.outOfOrder = seen.outOfOrder
        }
        result.elapsed = elapsed
        result.samples = samples
        return result
    }
}

extension Duration {
    /// This duration in whole nanoseconds.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue &+ attoseconds / 1_000_000_000
    }
}
