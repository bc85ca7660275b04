// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Logging
package import PacketTunnel
import Synchronization
import TunnelSystem
package import WireGuardCore

/// Registers keys: asks several servers in turn, again and again, within one deadline.
///
/// The API is that of PIA's servers: `GET /addKey?pubkey=KEY&pt=TOKEN`, answered with JSON.
package struct AddKeyClient: Sendable {
    let transport: any ProvisioningTransport
    let clock: any Clock<Duration>
    let logger: Logger
    /// How long all of it may take.
    var deadline: Duration = .seconds(30)
    /// How long each request may take, so that a silent server does not use up the time of the others.
    var patience: Duration = .seconds(10)
    let random: @Sendable () -> any RandomNumberGenerator

    package init(
        transport: any ProvisioningTransport, clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel"),
        random: @escaping @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    ) {
        self.transport = transport
        self.clock = clock
        self.logger = logger
        self.random = random
    }

    /// What a registration brought.
    package struct Registration: Sendable {
        package var reply: AddKeyReply
        /// The server that gave it, by its place in the list.
        package var server: Int
    }

    /// Registers a key.
    /// - Parameters:
    ///   - servers: who is asked, the first one first.
    ///   - first: the place in the list to begin at.
    /// - Throws: `.refused` at once, since no other server would say otherwise; what the last server failed with is told with
    ///   `.timedOut`.
    package func register(
        _ publicKey: PublicKey, token: SecretBytes, at servers: [ProvisioningServer], from first: Int = 0,
        socketMark: UInt32? = nil
    ) async throws(ProvisioningError) -> Registration {
        guard !servers.isEmpty else { throw .noServers }
        let last = Shared()
        let outcome = await withDeadline(deadline, clock: clock) {
            await attempts(publicKey, token, servers, first, socketMark, last)
        }
        switch outcome {
        case .finished(.success(let registration)): return registration
        case .finished(.failure(let error)): throw error
        case .timedOut: throw .timedOut(after: deadline, last: last.text.withLock { $0 })
        case .cancelled: throw .cancelled
        }
    }

    private final class Shared: Sendable {
        let text = Mutex<String?>(nil)
    }

    private func attempts(
        _ publicKey: PublicKey, _ token: SecretBytes, _ servers: [ProvisioningServer], _ first: Int,
        _ socketMark: UInt32?, _ last: Shared
    ) async -> Result<Registration, ProvisioningError> {
        var generator = random()
        for round in 0... {
            for step in servers.indices {
                let index = (first + step) % servers.count
                let request = ProvisioningRequest(
                    server: servers[index], target: Self.target(publicKey, token), socketMark: socketMark)
                do throws(ProvisioningError) {
                    let reply = try AddKeyReply(try await send(request), for: publicKey)
                    return .success(Registration(reply: reply, server: index))
                } catch {
                    guard error.concernsServerOnly else { return .failure(error) }
                    let text = "\(servers[index].name): \(error.tunnelError.message)"
                    last.text.withLock { $0 = text }
                    logger.warning("\(text)")
                }
            }
            // Half a second, doubled each time up to eight, and up to as much again, so that many clients do not come at once.
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
        let outcome = await withDeadline(patience, clock: clock) { () -> Result<ProvisioningReply, ProvisioningError> in
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

    /// The path and query, each value encoded once.
    static func target(_ publicKey: PublicKey, _ token: SecretBytes) -> String {
        "/addKey?pubkey=\(QueryText.encode(publicKey.base64.utf8))&pt=\(QueryText.encode(token.bytes))"
    }
}
