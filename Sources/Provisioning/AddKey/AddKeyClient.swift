// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel
public import WireGuardCore

/// Registers keys at several servers in turn (``ServerRounds``).
///
/// The API is that of PIA's servers: `GET /addKey?pubkey=KEY&pt=TOKEN`, with a JSON reply. ``AddKeyTunnelProvider`` uses this
/// client at each start; an app needs it only for a tunnel of another kind.
public struct AddKeyClient: Sendable {
    private let rounds: ServerRounds

    /// Creates a client.
    /// - Parameters:
    ///   - transport: Sends requests.
    ///   - clock: The clock of deadlines and pauses.
    ///   - logger: Logs the failures of servers.
    ///   - random: The source of random pauses.
    public init(
        transport: any ProvisioningTransport, clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel"),
        random: @escaping @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    ) {
        rounds = ServerRounds(transport: transport, clock: clock, logger: logger, random: random)
    }

    /// Registers a key, at one server after another, for at most 30 seconds.
    /// - Parameters:
    ///   - publicKey: The key to register, which the tunnel uses.
    ///   - token: The account's token.
    ///   - servers: The servers to ask, in order.
    ///   - first: The index of the first server.
    ///   - socketMark: The mark that lets sockets on Linux bypass a tunnel that is up.
    /// - Returns: The reply, and the index of the server that sent it.
    /// - Throws: `.refused` immediately, because no other server would answer differently; `.timedOut` with the failure
    ///   of the last server.
    public func register(
        _ publicKey: PublicKey, token: SecretBytes, at servers: [ProvisioningServer], from first: Int = 0,
        socketMark: UInt32? = nil
    ) async throws(ProvisioningError) -> (reply: AddKeyReply, server: Int) {
        let (reply, server) = try await rounds.ask(servers, from: first) { server in
            ProvisioningRequest(server: server, target: Self.target(publicKey, token), socketMark: socketMark)
        } read: { (reply, server) throws(ProvisioningError) in
            try AddKeyReply(reply, for: publicKey, allowsLoopback: server.isOnThisMachine)
        }
        return (reply, server)
    }

    /// The path and the query, with each value encoded once.
    static func target(_ publicKey: PublicKey, _ token: SecretBytes) -> String {
        "/addKey?pubkey=\(QueryText.encode(publicKey.base64.utf8))&pt=\(QueryText.encode(token.bytes))"
    }
}
