// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import Synchronization
import TunnelSystem

/// Sends a request to several servers in turn, with increasing pauses between rounds and within one deadline, until a
/// server gives a valid answer.
struct ServerRounds: Sendable {
    let transport: any ProvisioningTransport
    let clock: any Clock<Duration>
    let logger: Logger
    /// The time limit of all requests together.
    var deadline: Duration = .seconds(30)
    /// The time limit of each request, so that a silent server does not use up the time of the others.
    var patience: Duration = .seconds(10)
    let random: @Sendable () -> any RandomNumberGenerator

    private final class Last: Sendable {
        let text = Mutex<String?>(nil)
    }

    /// Asks the servers in turn until one answers.
    /// - Parameters:
    ///   - servers: The servers to ask, in order.
    ///   - first: The index of the first server.
    ///   - request: The request. It is identical for each attempt, so that a lost reply has no effect.
    ///   - read: Reads the reply of a server.
    /// - Returns: The value of the first valid reply, and the index of its server.
    /// - Throws: An error that every server would cause, immediately; otherwise `.timedOut` with the failure of the
    ///   last server.
    func ask<Value: Sendable>(
        _ servers: [ProvisioningServer], from first: Int = 0,
        request: @escaping @Sendable (ProvisioningServer) -> ProvisioningRequest,
        read: @escaping @Sendable (ProvisioningReply, ProvisioningServer) throws(ProvisioningError) -> Value
    ) async throws(ProvisioningError) -> (value: Value, server: Int) {
        guard !servers.isEmpty else { throw .noServers }
        let last = Last()
        let outcome = await withDeadline(deadline, clock: clock) {
            await rounds(servers, first, request, read, last)
        }
        switch outcome {
        case .finished(.success(let answer)): return answer
        case .finished(.failure(let error)): throw error
        case .timedOut: throw .timedOut(after: deadline, last: last.text.withLock { $0 })
        case .cancelled: throw .cancelled
        }
    }

    private func rounds<Value: Sendable>(
        _ servers: [ProvisioningServer], _ first: Int, _ request: (ProvisioningServer) -> ProvisioningRequest,
        _ read: (ProvisioningReply, ProvisioningServer) throws(ProvisioningError) -> Value, _ last: Last
    ) async -> Result<(value: Value, server: Int), ProvisioningError> {
        var generator = random()
        for round in 0... {
            for step in servers.indices {
                let index = (first + step) % servers.count
                do throws(ProvisioningError) {
                    let value = try read(try await send(request(servers[index])), servers[index])
                    return .success((value, index))
                } catch {
                    guard error.concernsServerOnly else { return .failure(error) }
                    let text = "\(servers[index].name): \(error.tunnelError.message)"
                    last.text.withLock { $0 = text }
                    logger.warning("\(text)")
                }
            }
            // Wait half a second, doubled each time up to eight seconds, plus jitter of up to the same size, so that
            // many clients do not send requests at the same time.
            let pause = Duration.milliseconds(500 << min(round, 4))
            do {
                try await clock.sleep(for: pause + pause * Double.random(in: 0..<1, using: &generator))
            } catch {
                return .failure(.cancelled)
            }
        }
        return .failure(.cancelled)
    }

    private func send(_ request: ProvisioningRequest) async throws(ProvisioningError) -> ProvisioningReply {
        var request = request
        request.timeout = patience
        let outcome = await withDeadline(patience, clock: clock) {
            [request] () -> Result<ProvisioningReply, ProvisioningError> in
            do throws(ProvisioningTransportError) {
                let reply = try await transport.send(request)
                guard reply.body.count <= request.replyLimit else {
                    throw ProvisioningTransportError.tooLong(limit: request.replyLimit)
                }
                return .success(reply)
            } catch {
                return .failure(.transport(error))
            }
        }
        switch outcome {
        case .finished(let result): return try result.get()
        case .timedOut: throw .transport(.unreachable("no answer within \(patience)"))
        case .cancelled: throw .cancelled
        }
    }
}
