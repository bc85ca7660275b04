// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import TunnelIO
    import TunnelSystem

    @testable import PacketTunnel

    @testable import PacketTunnelLinux

    /// Relays datagrams between one client and a server, with loss and delay in both directions (``LossyLink``).
    final class UDPRelay: Sendable {
        private struct State {
            var toServer: LossyLink<[UInt8]>
            var toClient: LossyLink<[UInt8]>
            var client: Endpoint?
        }

        private let state: Mutex<State>
        private let isEnded = Atomic<Bool>(false)
        private let ended = OneShot<Void>()

        /// Serves on `port`, and forwards to a server from a separate port.
        init(
            on network: any DatagramNetwork, port: UInt16, to server: IPAddress, _ serverPort: UInt16,
            loss: Double, delay: ClosedRange<Duration>, seed: UInt64 = 1
        ) throws {
            let conditions = LinkConditions(loss: loss, delay: delay)
            state = Mutex(
                State(toServer: LossyLink(conditions, seed: seed), toClient: LossyLink(conditions, seed: seed + 1)))
            let sockets = [try network.bind(port: port, mark: 0), try network.bind(port: 0, mark: 0)]
            guard !server.isIPv6, let front = sockets[0].v4, let back = sockets[1].v4 else {
                throw CommandFailure(description: "the relay is for IPv4")
            }
            let target = Endpoint(address: server, port: serverPort)
            let ended = ended
            _ = try LoopThread(name: "relay") { [weak self] in
                while let self, !self.isEnded.load(ordering: .acquiring) { self.pass(front, back, target) }
                for pair in sockets { pair.close() }
                ended.finish(())
            }
        }

        deinit { isEnded.store(true, ordering: .releasing) }

        /// Ends the relay; returns once its ports are free.
        func close() async {
            isEnded.store(true, ordering: .releasing)
            await ended.value
        }

        /// The statistics of both directions together.
        var statistics: LinkStatistics {
            state.withLock { state in
                var all = state.toServer.statistics
                let other = state.toClient.statistics
                all.sent += other.sent
                all.lost += other.lost
                all.delivered += other.delivered
                return all
            }
        }

        private func pass(_ front: any DatagramSocket, _ back: any DatagramSocket, _ target: Endpoint) {
            let end = ContinuousClock.now + .milliseconds(5)
            let ready = Poll.readable([front.readiness, back.readiness], before: end)
            let now = LaneClock.now()
            if ready.contains(front.readiness) {
                for (bytes, sender) in Self.receive(front) {
                    state.withLock { state in
                        state.client = sender
                        state.toServer.send(bytes, at: now)
                    }
                }
            }
            if ready.contains(back.readiness) {
                for (bytes, _) in Self.receive(back) { state.withLock { $0.toClient.send(bytes, at: now) } }
            }
            let (toServer, toClient, client) = state.withLock { state in
                (state.toServer.deliver(upTo: now), state.toClient.deliver(upTo: now), state.client)
            }
            Self.send(toServer, back, target)
            if let client { Self.send(toClient, front, client) }
        }

        private static func receive(_ socket: any DatagramSocket) -> [([UInt8], Endpoint)] {
            guard let batch = try? PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18),
                (try? socket.receive(into: batch)) ?? 0 > 0
            else { return [] }
            return (0..<batch.count).map { (batch.copy(of: $0), batch[endpoint: $0]) }
        }

        private static func send(_ messages: [[UInt8]], _ socket: any DatagramSocket, _ target: Endpoint) {
            guard !messages.isEmpty, let batch = try? PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18) else {
                return
            }
            for message in messages { batch.append(copying: message, endpoint: target) }
            _ = try? socket.send(batch, in: 0..<batch.count)
        }
    }
#endif
