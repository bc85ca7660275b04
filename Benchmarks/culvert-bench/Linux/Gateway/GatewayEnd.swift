// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelTesting
import TunnelIO
import TunnelServer
import WireGuardCore
import WireGuardDevice

/// A gateway's end of a tunnel in a separate process: the host's firewall with rules for many clients, in front of a
/// WireGuard device with as many peers. One client is real.
///
/// Each line of the input changes the real client's rules. The output has one line for each change, with the
/// microseconds until the change took effect, and one line for the start.
enum GatewayEnd {
    static let command = "gateway-end"
    /// The key pairs of both ends follow from these numbers, those of the other clients from the following ones.
    static let (serverKey, clientKey) = (0, 1)
    /// Lists of rules that all clients share. A list is one chain.
    private static let lists = 1_000
    private static let network: UInt32 = 0x0a07_1000

    static func run(_ arguments: ArraySlice<String>) throws {
        let words = Array(arguments)
        guard words.count == 3, let count = Int(words[1]), (1...10_000).contains(count) else {
            throw UsageError(message: "\(command) NAME CLIENTS FOLDER")
        }
        // culvert-wg and the gateway's program select the implementation of ChaCha20-Poly1305 in the same way.
        try TransportAEAD.select(.standard)
        let network = try makeNetwork(name: words[0], folder: words[2])
        defer { try? Waiter.wait { await network.stop() } }
        let (tun, _, _) = try Waiter.wait { try await network.start(isMultiQueue: LaneLayout.server.needsQueues) }
        let device = try makeDevice(tun, count)
        defer { device.close() }
        let client = IPPrefix(host: try IPAddress(NamespacePair.inside[0]))
        try apply([client: ClientAccess()], to: network)
        try apply(try crowd(count), to: network)
        try device.start()
        write("up")
        var port: UInt16 = 1
        while readLine() != nil {
            let access = ClientAccess(rules: [try rule("203.0.113.77/32", port: port)])
            port += 1
            let begun = nanoseconds()
            try apply([client: access], to: network)
            write("\((nanoseconds() - begun) / 1000)")
        }
    }

    /// Writes a line, which must not wait in a buffer.
    private static func write(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

    private static func makeNetwork(name: String, folder: String) throws -> ServerNetwork {
        guard let address = InterfaceAddress(try IPAddress(NamespacePair.inside[1]), prefixLength: 16) else {
            throw BenchmarkError("no address")
        }
        var settings = ServerNetworkSettings(name: name, mtu: 1420, addresses: [address])
        settings.journalFolder = folder
        return try ServerNetwork(settings)
    }

    private static func makeDevice(_ tun: LinuxTun, _ count: Int) throws -> WireGuardDevice {
        let options = WireGuardDevice.Options(dataPath: DataPathOptions(layout: .server))
        let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: options)
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(PeerCrowd.key(serverKey))
        update.listenPort = UInt16(WireGuardSetting.port)
        update.peers = [try peer(clientKey, try IPAddress(NamespacePair.inside[0]))]
        try device.apply(update)
        for start in stride(from: 0, to: count, by: 128) {
            var part = UAPIDeviceUpdate()
            part.peers = try (start..<min(start + 128, count)).map { number in
                try peer(clientKey + 1 + number, .v4(Self.network + UInt32(number)))
            }
            try device.apply(part)
        }
        return device
    }

    private static func peer(_ number: Int, _ address: IPAddress) throws -> UAPIPeerUpdate {
        var peer = UAPIPeerUpdate(publicKey: try WireGuardSetting.publicKey(of: PeerCrowd.key(number)))
        peer.allowedIPs = [.add(IPPrefix(host: address))]
        return peer
    }

    private static func rule(_ network: String, port: UInt16? = nil) throws -> AccessRule {
        AccessRule(
            .deny, networks: [try IPPrefix(network)], transport: port == nil ? .any : .tcp,
            ports: port.map { [$0...$0] } ?? [])
    }

    private static func crowd(_ count: Int) throws -> [IPPrefix: ClientAccess] {
        let rules = try (0..<lists).map { [try rule("198.18.\($0 / 250).\($0 % 250)/32")] }
        let clients = (0..<count).map { number in
            (IPPrefix(host: .v4(Self.network + UInt32(number))), ClientAccess(rules: rules[number % lists]))
        }
        return Dictionary(uniqueKeysWithValues: clients)
    }

    private static func apply(_ clients: [IPPrefix: ClientAccess], to network: ServerNetwork) throws {
        let changes = clients.mapValues { ClientAccess?.some($0) }
        let refused = try Waiter.wait { try await network.apply(changes) }
        guard refused.isEmpty else { throw BenchmarkError("the firewall refused \(refused.count) clients") }
    }
}
