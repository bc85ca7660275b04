// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import NetworkAddresses
    import TunnelIO

    /// The small host behind one end's interface in memory: answers pings, counts and compares what is sent to it in bulk.
    final class DemoHost: Sendable {
        struct State {
            var reply: (identifier: UInt16, sequence: UInt16)?
            var packets = 0
            var bytes = 0
            var damaged = 0
        }

        let tun: MemoryTun
        let state = Monitor(State())
        private static let port: UInt16 = 7777
        private static let payload = 1372
        /// Packets that are under way at most.
        private static let window = 96

        init(name: String, mtu: Int) throws(DemoFailure) {
            do throws(TunnelIOError) {
                tun = try MemoryTun(name: name, mtu: mtu, queueCapacity: 2048, byteCapacity: 4 << 20)
            } catch {
                throw DemoFailure("\(error)")
            }
            unsafe tun.onDeliver = { [weak self] packet in unsafe self?.take(packet) }
        }

        private func take(_ packet: UnsafeRawBufferPointer) {
            guard let first = unsafe packet.first else { return }
            let header = first >> 4 == 4 ? 20 : 40
            guard packet.count >= header + 8 else { return }
            switch unsafe packet[header == 20 ? 9 : 6] {
            case PacketBuilder.IPProtocol.udp: unsafe takeBulk(packet, header)
            case PacketBuilder.IPProtocol.icmp, PacketBuilder.IPProtocol.icmpv6: unsafe takeEcho(packet, header)
            default: break
            }
        }

        private func takeEcho(_ packet: UnsafeRawBufferPointer, _ header: Int) {
            if let reply = unsafe ICMPResponder().reply(to: packet) {
                tun.inject(reply)
            } else if unsafe packet[header] == 0 || packet[header] == 129 {
                let reply = unsafe (word(packet, header + 4), word(packet, header + 6))
                state.update { state in
                    state.reply = reply
                    return true
                }
            }
        }

        private func takeBulk(_ packet: UnsafeRawBufferPointer, _ header: Int) {
            guard unsafe word(packet, header + 2) == Self.port else { return }
            let payload = unsafe UnsafeRawBufferPointer(rebasing: packet[(header + 8)...])
            let wanted = unsafe payload.first ?? 0
            let isWhole = unsafe payload.count == Self.payload && payload.allSatisfy { $0 == wanted }
            state.update { state in
                state.packets += 1
                state.bytes += packet.count
                if !isWhole { state.damaged += 1 }
                return state.packets % 16 == 0
            }
        }

        private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt16 {
            unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self).bigEndian
        }

        // MARK: - Sending

        /// Sends an echo request; gives the round-trip time, or nil when there is no answer.
        func ping(
            _ destination: IPAddress, from source: IPAddress, identifier: UInt16, sequence: UInt16,
            within limit: Duration
        ) -> Duration? {
            let packet = PacketBuilder.icmpEcho(
                from: source, to: destination, identifier: identifier, sequence: sequence,
                payload: Array(repeating: 0x77, count: 56))
            let start = LaneClock.now()
            guard tun.inject(packet) else { return nil }
            let nanoseconds = Int64(limit.milliseconds * 1e6)
            return state.wait(until: start + nanoseconds) { state in
                guard let reply = state.reply, reply == (identifier, sequence) else { return nil }
                return .nanoseconds(LaneClock.now() - start)
            }
        }

        struct Transfer {
            var sent = 0
            var received = 0
            var bytes = 0
            var damaged = 0
            var elapsed = Duration.zero

            var text: String {
                let seconds = max(elapsed.milliseconds / 1000, 0.001)
                return
                    "\(Figure.rate(Double(bytes) * 8 / seconds)): \(Figure.bytes(bytes)) in \(Figure.grouped(received)) packets, "
                    + "\(Figure.grouped(sent - received)) lost, \(Figure.grouped(damaged)) damaged"
            }
        }

        /// Sends packets to another host through the tunnel, no more at a time than arrive.
        func send(
            to host: DemoHost, _ destination: IPAddress, from source: IPAddress, for duration: Duration
        ) -> Transfer {
            let before = host.state.withValue { $0 }
            let start = LaneClock.now()
            let end = start + Int64(duration.milliseconds * 1e6)
            let packets = (0..<UInt8(64)).map { byte in
                PacketBuilder.udp(
                    from: source, port: Self.port, to: destination, port: Self.port,
                    payload: Array(repeating: byte, count: Self.payload))
            }
            var (transfer, given) = (Transfer(), 0)
            while LaneClock.now() < end {
                if tun.inject(packets[transfer.sent % packets.count]) { transfer.sent += 1 }
                let sent = transfer.sent
                let missing = host.state.withValue { sent - given - ($0.packets - before.packets) }
                guard missing >= Self.window else { continue }
                let came: Bool? = host.state.wait(until: LaneClock.now() + 200_000_000) { state in
                    sent - given - (state.packets - before.packets) < Self.window / 2 ? true : nil
                }
                // What has not come by now is lost.
                if came == nil { given = host.state.withValue { sent - ($0.packets - before.packets) } }
            }
            let sent = transfer.sent
            let _: Bool? = host.state.wait(until: LaneClock.now() + 200_000_000) { state in
                state.packets - before.packets >= sent ? true : nil
            }
            let after = host.state.withValue { $0 }
            transfer.elapsed = .nanoseconds(LaneClock.now() - start)
            transfer.received = after.packets - before.packets
            transfer.bytes = after.bytes - before.bytes
            transfer.damaged = after.damaged - before.damaged
            return transfer
        }
    }
#endif
