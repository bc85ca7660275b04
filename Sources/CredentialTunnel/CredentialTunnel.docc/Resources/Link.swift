// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import TunnelIO

/// A UDP socket to one server.
final class Link: Sendable {
    /// The datagrams from the server's address, which can be forged. The stream ends when the link is closed.
    let datagrams: AsyncStream<[UInt8]>
    let server: Endpoint
    private let arrived: AsyncStream<[UInt8]>.Continuation
    private let incoming: Mutex<PacketBatch>
    private let outgoing: Mutex<PacketBatch>
    private let loop: EventLoop
    private let sockets: DatagramSockets
    private let socket: any DatagramSocket

    /// - Parameter mark: The socket mark that keeps the datagrams out of the tunnel's own routes.
    init(to server: Endpoint, over network: any DatagramNetwork, mark: UInt32?) throws(TunnelIOError) {
        self.server = server
        // Bound the queue: otherwise, a sender could fill the memory of this process.
        (datagrams, arrived) = AsyncStream.makeStream(of: [UInt8].self, bufferingPolicy: .bufferingNewest(256))
        incoming = try Mutex(PacketBatch())
        outgoing = try Mutex(PacketBatch())
        loop = try EventLoop()
        sockets = try network.bind(port: 0, mark: mark ?? 0)
        guard let socket = server.isIPv6 ? sockets.v6 : sockets.v4 else {
            sockets.close()
            throw TunnelIOError(.unsupported("an address of this family"))
        }
        self.socket = socket
        _ = try loop.register(socket.readiness) { [weak self] _ in self?.receive() }
        try loop.startThread(name: "link")
    }

    deinit { close() }

    func close() {
        loop.stop()
        sockets.close()
        arrived.finish()
    }

    func send(_ datagram: [UInt8]) {
        outgoing.withLock { batch in
            batch.removeAll()
            batch.append(copying: datagram, endpoint: server)
            // Treat a datagram that cannot be sent like one lost on the network.
            _ = try? socket.send(batch, in: 0..<batch.count)
        }
    }

    private func receive() {
        incoming.withLock { batch in
            batch.removeAll()
            guard (try? socket.receive(into: batch)) != nil else { return }
            for index in 0..<batch.count where batch[endpoint: index] == server && batch[index].length > 0 {
                arrived.yield(batch.copy(of: index))
            }
        }
    }

    /// Sends a request every second until a response is accepted. Returns `nil` after ten seconds.
    func ask<Answer>(
        clock: any Clock<Duration>, _ question: () -> [UInt8]?, accept: ([UInt8]) -> Answer?
    ) async -> Answer? {
        // Links receive no empty datagrams, so an empty one marks that a second has passed.
        let seconds = Task { [arrived] in
            while true {
                arrived.yield([])
                try await clock.sleep(for: .seconds(1))
            }
        }
        defer { seconds.cancel() }
        var left = 10
        for await datagram in datagrams {
            if !datagram.isEmpty {
                if let answer = accept(datagram) { return answer }
            } else if left > 0, let bytes = question() {
                left -= 1
                send(bytes)
            } else {
                return nil
            }
        }
        return nil
    }
}
