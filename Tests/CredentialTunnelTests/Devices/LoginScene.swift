// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore

@testable import CredentialTunnel

/// A store of users in memory, which assigns consecutive addresses.
final class ScriptedStore: CredentialStore {
    struct State {
        var users = ["kean": "123456", "ada": "lovelace"]
        /// The refusal with which the store answers each login, or `nil` to verify logins.
        var refusal: Body.Refusal?
        var attempts: [LoginAttempt] = []
        var ended: [EndReason] = []
        var given: [ClientID: IPAddress] = [:]
        /// The event to wait for before a verdict; `nil` for no wait.
        var gate: Event?
        /// The addresses to assign, even if they are in use.
        var fixed: IPAddress?
    }

    let state = Mutex(State())
    let changes: Changes
    let keepalive: Int

    init(changes: Changes, keepalive: Int = 0) { (self.changes, self.keepalive) = (changes, keepalive) }

    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        let gate = state.withLock { state in
            state.attempts.append(attempt)
            return state.gate
        }
        changes.notify()
        _ = await gate?.wait(timeout: .seconds(60))
        let verdict = state.withLock { state -> LoginVerdict in
            if let refusal = state.refusal { return .refused(refusal) }
            guard state.users[attempt.login].map({ Array($0.utf8) }) == attempt.password.bytes else {
                return .refused(Body.Refusal(.credentials, message: "no such user, or another password"))
            }
            let free = (2...250).lazy.map { IPAddress.v4(10, 7, 0, UInt8($0)) }.first {
                !state.given.values.contains($0)
            }
            guard let address = state.fixed ?? free else { return .refused(Body.Refusal(.full)) }
            state.given[attempt.session] = address
            return .accepted(
                Body.Assignment(
                    addresses: [InterfaceAddress(host: address)], routes: [.allIPv4], dns: [.v4(10, 7, 0, 1)],
                    keepalive: keepalive))
        }
        changes.notify()
        return verdict
    }

    func ended(_ session: ClientID, _ reason: EndReason, _: SessionTraffic) async {
        state.withLock { state in
            state.given[session] = nil
            state.ended.append(reason)
        }
        changes.notify()
    }
}

/// A server on an in-memory internet, with a network behind it that answers ping and UDP.
final class LoginServer: Sendable {
    static let port: UInt16 = 4500
    static let address = IPAddress.v4(0xc633_6401)  // 198.51.100.1

    let network: MemoryDatagramNetwork
    let behind = VirtualNetwork()
    let store: ScriptedStore
    private let device: Mutex<CredentialServerDevice>
    private let key: PrivateKey
    private let options: CredentialServerDevice.Options

    init(
        on internet: MemoryInternet, at addresses: [IPAddress] = [LoginServer.address], changes: Changes,
        keepalive: Int = 0, key: PrivateKey = FixedKeys.privateKey(),
        options: CredentialServerDevice.Options = CredentialServerDevice.Options()
    ) throws {
        network = internet.attach(addresses)
        store = ScriptedStore(changes: changes, keepalive: keepalive)
        (self.key, self.options) = (key, options)
        device = Mutex(try Self.make(network, behind, store, key, options))
    }

    private static func make(
        _ network: MemoryDatagramNetwork, _ behind: VirtualNetwork, _ store: ScriptedStore, _ key: PrivateKey,
        _ options: CredentialServerDevice.Options
    ) throws -> CredentialServerDevice {
        let tun = try behind.makeTun(name: "server")
        let device = CredentialServerDevice(
            privateKey: key, presharedKey: FixedKeys.preshared(), store: store, tun: tun, network: network,
            binding: DatagramBinding(port: port),
            options: options)
        try device.start()
        return device
    }

    var running: CredentialServerDevice { device.withLock { $0 } }

    /// Loses all sessions, like a server that was killed and restarted.
    func restart(_ internet: MemoryInternet) async throws {
        // Drop the server's disconnect messages, because a killed server sends none.
        internet.setFilter { $0.source != Self.address }
        await running.stop()
        internet.setFilter(nil)
        let fresh = try Self.make(network, behind, store, key, options)
        device.withLock { $0 = fresh }
    }
}

/// A client without a provider.
final class LoginClient: Sendable {
    static let target = IPAddress.v4(203, 0, 113, 7)

    let network: MemoryDatagramNetwork
    let device: CredentialClientDevice
    let tun: MemoryTun
    private let seen = Mutex<[ClientEvent]>([])
    private let delivered = Delivered()
    let changes: Changes

    init(on internet: MemoryInternet, at address: UInt32, changes: Changes) throws {
        self.changes = changes
        network = internet.attach([.v4(address)])
        device = try CredentialClientDevice(network: network)
        tun = try MemoryTun(name: "client")
        let delivered = delivered
        unsafe tun.onDeliver = { packet in
            let packet = unsafe Array(packet)
            delivered.packets.withLock { $0.append(packet) }
            changes.notify()
        }
        let events = device.events
        Task { [weak self] in
            for await event in events {
                self?.seen.withLock { $0.append(event) }
                changes.notify()
            }
        }
    }

    var events: [ClientEvent] { seen.withLock { $0 } }

    func logIn(
        _ login: String = "kean", _ password: String = "123456", pinned: [UInt8] = FixedKeys.server,
        presharedKey: [UInt8] = FixedKeys.presharedKey, timing: SessionTiming = SessionTiming(),
        at endpoints: [Endpoint] = [Endpoint(address: LoginServer.address, port: LoginServer.port)]
    ) {
        var configuration = CredentialClient.Configuration(
            keys: SharedKeys(
                server: FixedKeys.privateKey(pinned).publicKey, presharedKey: FixedKeys.preshared(presharedKey)),
            login: Body.ClientAuthRequest(login: login, password: password))
        configuration.timing = timing
        device.logIn(configuration, at: endpoints)
    }

    /// Returns the event with this index, or `nil` if it does not arrive.
    func event(_ index: Int = 0) async -> ClientEvent? {
        _ = await changes.wait { self.events.count > index }
        return events.count > index ? events[index] : nil
    }

    /// Returns whether a ping through the tunnel is answered.
    func passes(from inner: IPAddress, sequence: UInt16 = 1, within attempts: Int = 300) async -> Bool {
        let request = PacketBuilder.icmpEcho(
            from: inner, to: Self.target, identifier: 9, sequence: sequence, payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        for _ in 0..<attempts {
            tun.inject(request)
            let isThere = await changes.wait(within: .milliseconds(100)) {
                delivered.packets.withLock { $0.contains { $0 == reply } }
            }
            if isThere { return true }
        }
        return false
    }
}

/// The packets that a tunnel delivered.
private final class Delivered: Sendable {
    let packets = Mutex<[[UInt8]]>([])
}
