// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import Synchronization
public import TunnelIO
public import WireGuardCore

/// A login server in this process, for development, previews and tests.
///
/// Its users are in memory, and the network behind it is a `VirtualNetwork` that answers pings and echoes UDP. It needs
/// no privileges and no network interface, and runs on macOS and Linux. The protocol is that of a real server, so an app
/// that works with it needs only another configuration later. Clients reach nothing but the virtual network.
///
/// ```swift
/// let server = try MemoryLoginServer(users: ["kean": "123456"])
/// let configuration = try server.configuration(login: "kean")
/// ```
///
/// A real server is `culvert gateway`. This one keeps passwords in plain text and does not limit attempts: use it with
/// passwords that protect nothing else.
public final class MemoryLoginServer: Sendable {
    /// A client whose login was accepted.
    public struct Session: Hashable, Sendable {
        /// The user's name.
        public let login: String
        /// The client's addresses in the tunnel.
        public let addresses: [IPAddress]
        /// The client's address on the network.
        public let endpoint: Endpoint
        /// The number of IP packets from the client.
        public let receivedPackets: Int
        /// The number of IP packets to the client.
        public let sentPackets: Int
    }

    /// The server's address in the tunnel, which answers pings: 10.77.0.1. Clients have the addresses 10.77.0.2 to
    /// 10.77.0.254, each with an IPv6 address.
    public static let address = IPAddress.v4(10, 77, 0, 1)

    /// The server's private key. A server that is to replace this one needs it.
    public let privateKey: PrivateKey
    /// The key that all clients have.
    public let presharedKey: PresharedKey
    /// The network behind the server, with its counters.
    public let network: VirtualNetwork
    private let users: MemoryUsers
    private let device: CredentialServerDevice

    /// Binds the port and starts the server, which runs until ``stop()`` or until it is released.
    ///
    /// - Parameters:
    ///   - users: The password of each user.
    ///   - port: The UDP port, on all addresses of the host; for 0, the system chooses the port.
    ///   - privateKey: The server's key; `nil` for a new one.
    ///   - presharedKey: The key that all clients have; `nil` for a new one.
    ///   - datagrams: The network for UDP sockets, such as a `MemoryInternet` in a test.
    /// - Throws: `TunnelIOError` if the port cannot be bound or a thread cannot be started.
    public init(
        users: [String: String], port: UInt16 = 0, privateKey: PrivateKey? = nil, presharedKey: PresharedKey? = nil,
        datagrams: any DatagramNetwork = SystemDatagramNetwork()
    ) throws(TunnelIOError) {
        var random = SystemRandomNumberGenerator()
        self.privateKey = privateKey ?? PrivateKey(using: &random)
        self.presharedKey = presharedKey ?? PresharedKey(using: &random)
        self.users = MemoryUsers(users)
        network = VirtualNetwork(prefixes: MemoryUsers.networks)
        device = CredentialServerDevice(
            privateKey: self.privateKey, presharedKey: self.presharedKey, store: self.users,
            tun: try network.makeTun(name: "login-server"), network: datagrams, binding: DatagramBinding(port: port))
        try device.start()
    }

    // MARK: - Clients

    /// The bound UDP port, or `nil` after ``stop()``.
    public var port: UInt16? { device.port }

    /// Returns the configuration of a client.
    /// - Parameters:
    ///   - login: The user's name.
    ///   - host: The address of this machine, as the client reaches it.
    /// - Throws: `TunnelError` with the code `.notRunning` after ``stop()``.
    public func configuration(
        login: String, host: String = "127.0.0.1"
    ) throws(TunnelError) -> CredentialTunnelConfiguration {
        guard let port else { throw TunnelError(.notRunning, "the login server was stopped") }
        return CredentialTunnelConfiguration(
            server: host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)",
            serverKey: privateKey.publicKey.base64, login: login)
    }

    /// Returns the secrets of a client, under the names that ``configuration(login:host:)`` uses. Store them with the
    /// profile.
    public func secrets(password: String) -> [String: SecretBytes] {
        [
            CredentialTunnelConfiguration.defaultPasswordName: SecretBytes(Array(password.utf8)),
            CredentialTunnelConfiguration.defaultPresharedKeyName: SecretBytes(
                Array(presharedKey.exportedBase64.utf8)),
        ]
    }

    /// The current sessions.
    public var sessions: [Session] {
        device.sessions.map { session in
            Session(
                login: session.login, addresses: session.assignment.addresses.map(\.address),
                endpoint: session.endpoint, receivedPackets: session.moved.receivedPackets,
                sentPackets: session.moved.sentPackets)
        }
    }

    /// The number of accepted logins.
    public var acceptedLogins: Int { device.statistics.accepted }
    /// The number of refused logins.
    public var refusedLogins: Int { device.statistics.refused }

    // MARK: - Changes

    /// Adds a user or changes a password, and ends the user's sessions: their clients receive
    /// ``EndReason/passwordChanged``. A login whose password the server has just verified may still succeed.
    /// - Parameter password: The new password, or `nil` to remove the user. Then clients receive ``EndReason/removed``.
    public func setPassword(_ password: String?, of login: String) {
        users.setPassword(password, of: login)
        disconnect(login, password == nil ? .removed : .passwordChanged)
    }

    /// Ends the user's sessions, and notifies the clients of the reason.
    public func disconnect(_ login: String, _ reason: EndReason = .removed) {
        for session in device.sessions where session.login == login { device.disconnect(session.id, reason) }
    }

    /// Ends all sessions, notifies their clients, and closes the port. Safe to repeat. A client logs in again when a
    /// server with the same port and keys runs.
    public func stop() async { await device.stop() }
}

/// The users of a ``MemoryLoginServer``, and the addresses of their clients.
private final class MemoryUsers: CredentialStore {
    private struct State {
        var passwords: [String: String]
        /// The last byte of the addresses of each session.
        var numbers: [ClientID: UInt8] = [:]
    }

    static let networks = [
        IPPrefix(.v4(10, 77, 0, 0), length: 24), IPPrefix(.v6(0xfd77 << 48, 0), length: 64),
    ].compactMap(\.self)
    private let state: Mutex<State>

    init(_ passwords: [String: String]) { state = Mutex(State(passwords: passwords)) }

    func setPassword(_ password: String?, of login: String) { state.withLock { $0.passwords[login] = password } }

    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        state.withLock { state in
            guard let password = state.passwords[attempt.login], Array(password.utf8) == attempt.password.bytes else {
                return .refused(Body.Refusal(.credentials, message: "no such user, or another password"))
            }
            let used = Set(state.numbers.values)
            guard let number = (UInt8(2)...254).first(where: { !used.contains($0) }) else {
                return .refused(Body.Refusal(.full, message: "all 253 addresses are in use"))
            }
            state.numbers[attempt.session] = number
            let addresses: [IPAddress] = [.v4(10, 77, 0, number), .v6(0xfd77 << 48, UInt64(number))]
            return .accepted(
                Body.Assignment(addresses: addresses.map { InterfaceAddress(host: $0) }, routes: Self.networks))
        }
    }

    func ended(_ session: ClientID, _ reason: EndReason, _: SessionTraffic) async {
        state.withLock { $0.numbers[session] = nil }
    }
}
