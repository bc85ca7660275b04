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

    /// - Parameter mark: Lets the datagrams bypass the tunnel's own routes.
    init(to server: Endpoint, over network: any DatagramNetwork, mark: UInt32?) throws(TunnelIOError) {
        self.server = server
        // A queue without a bound is a way to fill the memory of this process from outside.
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
            // A datagram that cannot be sent is lost, as one that is lost on its way.
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

    /// Sends a question each second until there is an answer that is accepted; nil after ten seconds.
    func ask<Answer>(
        clock: any Clock<Duration>, _ question: () -> [UInt8]?, accept: ([UInt8]) -> Answer?
    ) async -> Answer? {
        // No datagram here is empty, so that an empty one is free to mean that a second has passed.
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
