// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Synchronization

@testable import CredentialTunnel
@testable import WireGuardTunnel
@testable import culvert

/// A folder that is removed with its contents in deinit.
final class ScratchFolder: Sendable {
    let path: String

    init() throws {
        // Short: a socket's path has room for a hundred bytes.
        path = "/tmp/cvt-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Writes a file; returns its path.
    @discardableResult
    func write(_ text: String, to name: String, mode: Int = 0o600) throws -> String {
        let file = "\(path)/\(name)"
        try text.write(toFile: file, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
        return file
    }
}

enum Samples {
    static let privateKey = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
    static let peerKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
    static let presharedKey = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE="

    /// A wg-quick file.
    static func file(_ more: String = "") -> String {
        """
        [Interface]
        PrivateKey = \(privateKey)
        Address = 10.7.0.2/24, fd07::2/64
        DNS = 10.7.0.1, corp.example
        \(more)
        [Peer]
        PublicKey = \(peerKey)
        PresharedKey = \(presharedKey)
        Endpoint = 192.0.2.1:51820
        AllowedIPs = 0.0.0.0/0, ::/0
        PersistentKeepalive = 25

        """
    }

    static func status(
        _ state: WireGuardState = .connected, age: Double? = 12, received: UInt64 = 2_000_000, sent: UInt64 = 4_500
    ) -> StatusRequest.Reply {
        StatusRequest.Reply(
            state: state, listenPort: 40_000,
            peers: [
                PeerStatus(
                    publicKey: peerKey, endpoint: "192.0.2.1:51820", lastHandshakeAge: age, receivedBytes: received,
                    sentBytes: sent)
            ], drops: ["while down": 3], pingsSent: 0, pingReplies: 0)
    }

    static func login(
        _ state: CredentialState = .connected, drops: [String: UInt64] = ["forged": 2]
    ) -> CredentialStatusRequest.Reply {
        CredentialStatusRequest.Reply(
            state: state, login: "anna", server: "192.0.2.9:443", keyAge: 42, receivedBytes: 3_000_000,
            sentBytes: 7_500, drops: drops)
    }

    /// The report of a login tunnel.
    static func report(
        _ status: TunnelStatus = .connected, login: CredentialStatusRequest.Reply
    ) -> ServiceReport {
        var report = Samples.report("login0", status, wireGuard: nil)
        report.login = login
        (report.publicKey, report.peers) = (nil, [])
        return report
    }

    static func report(
        _ name: String = "wg0", _ status: TunnelStatus = .connected, wireGuard: StatusRequest.Reply? = status()
    ) -> ServiceReport {
        ServiceReport(
            name: name, processID: 4711, version: "0.1.0", source: "/etc/wireguard/wg0.conf", startedAt: 1000,
            status: TunnelStatusUpdate(status), wireGuard: wireGuard, publicKey: peerKey,
            addresses: ["10.7.0.2/24"], routes: ["0.0.0.0/0", "::/0"], excludedRoutes: [], dnsServers: ["10.7.0.1"],
            searchDomains: ["corp.example"], leakPolicy: .routeBased, allowsLocalNetwork: true,
            allowedNetworks: ["172.16.0.0/12"],
            peers: [
                ServiceReport.Peer(
                    publicKey: peerKey, endpoint: "vpn.example:51820", allowedIPs: ["0.0.0.0/0", "::/0"],
                    persistentKeepalive: 25)
            ], residentBytes: 20_000_000, aead: "boringssl")
    }
}

/// A host without a provider, whose status tests set.
final class FakeHost: TunnelHost {
    private let updates = Broadcast(TunnelStatusUpdate(.disconnected))
    let failure = Mutex<TunnelError?>(nil)
    let calls = Mutex<[String]>([])
    let counters = Mutex<(received: UInt64, sent: UInt64)>((0, 0))

    func set(_ status: TunnelStatus, _ error: TunnelError? = nil) {
        updates.send(TunnelStatusUpdate(status, error: error))
    }

    func note(_ call: String) { calls.withLock { $0.append(call) } }

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        note("start")
        if let error = failure.withLock({ $0 }) { throw error }
        set(.connected)
    }

    func stop(_ reason: StopReason) async {
        note("stop")
        set(.disconnected)
    }

    var secrets: (any SecretStore)? { nil }

    var status: TunnelStatusUpdate { updates.current }
    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { updates.follow() }
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? { nil }
    func sleep() async {}
    func wake() {}
    func pathChanged(_ path: NetworkPath) {}

    /// The report of its service; each report has a thousand bytes more.
    func report(_ name: String) -> ServiceReport {
        let (received, sent) = counters.withLock { counters in
            counters.received += 1000
            counters.sent += 500
            return counters
        }
        var report = Samples.report(name, wireGuard: Samples.status(received: received, sent: sent))
        report.status = status
        return report
    }

    /// A service for it, in `folder`.
    func serve(_ name: String, in folder: ScratchFolder) throws -> TunnelService {
        try TunnelService(host: self, path: RuntimeDirectory(path: folder.path).socket(name)) { router in
            router.on(ServiceReportRequest.self) { [self] _ in report(name) }
        }
    }
}

extension LoadedTunnel {
    /// WireGuard's configuration; empty for a tunnel of another kind.
    var configuration: WireGuardTunnelConfiguration {
        wireGuard ?? WireGuardTunnelConfiguration(addresses: [], peers: [])
    }
}
