// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import DemoSupport
import NetworkAddresses
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// One end of the demonstration: a WireGuard device with an interface in memory, and the host behind it.
struct DemoEnd {
    static let mtu = 1420

    let host: DemoHost
    let device: WireGuardDevice
    let privateKey: PrivateKey
    private let addresses: [IPAddress]

    var publicKey: PublicKey { privateKey.publicKey }

    /// An end with a new key.
    /// - Parameter number: The last part of both addresses.
    init(_ name: String, number: UInt8) throws(DemoFailure) {
        var generator = SystemRandomNumberGenerator()
        privateKey = PrivateKey(using: &generator)
        addresses = [.v4(10, 77, 0, number), .v6(0xfd77_0000_0000_0000, UInt64(number))]
        let host = try DemoHost(name: name, addresses: addresses, mtu: Self.mtu)
        self.host = host
        device = try Self.wrap { () throws(WireGuardDeviceError) in
            try WireGuardDevice(tun: host.tun, network: SystemDatagramNetwork())
        }
    }

    /// The update that makes this end known to the device of the other end.
    func peer(_ presharedKey: PresharedKey? = nil, port: UInt16? = nil) -> UAPIPeerUpdate {
        DemoHost.peer(
            publicKey, presharedKey, at: port.map { .loopback(port: $0) },
            allowedIPs: addresses.map { IPPrefix(host: $0) })
    }

    func apply(_ peers: [UAPIPeerUpdate], key: PrivateKey? = nil) throws(DemoFailure) {
        var update = UAPIDeviceUpdate()
        update.privateKey = key.map { .set($0) } ?? .unchanged
        update.peers = peers
        try Self.wrap { () throws(WireGuardDeviceError) in try device.apply(update) }
    }

    static func wrap<R>(_ body: () throws(WireGuardDeviceError) -> R) throws(DemoFailure) -> R {
        do throws(WireGuardDeviceError) { return try body() } catch { throw DemoFailure(error.description) }
    }

    // MARK: - Counters

    func json(peer: DemoEnd) -> JSON {
        let (engine, lane, state) = (device.engineStatistics, device.laneStatistics, device.peer(peer.publicKey))
        return [
            "publicKey": .string(publicKey.base64), "port": .integer(device.listenPort ?? 0),
            "handshakesCompleted": .integer(engine.handshakesCompleted), "packetsSealed": .integer(engine.packetsSent),
            "packetsOpened": .integer(engine.packetsReceived), "datagramsSent": .integer(lane.toNetwork.packets),
            "datagramsReceived": .integer(lane.fromNetwork.packets), "sendBatches": .integer(lane.toNetwork.batches),
            "endpointChanges": .integer(engine.endpointChanges), "bytesSent": .integer(state?.sentBytes ?? 0),
            "bytesReceived": .integer(state?.receivedBytes ?? 0),
        ]
    }

    /// The counters of the closing table.
    var rows: [(name: String, count: UInt64)] {
        let (engine, sent) = (device.engineStatistics, device.laneStatistics.toNetwork)
        return [
            ("handshakes completed", engine.handshakesCompleted), ("packets sealed", engine.packetsSent),
            ("packets opened", engine.packetsReceived), ("datagrams sent", UInt64(clamping: sent.packets)),
            ("datagrams per batch sent", UInt64(clamping: sent.packets / max(sent.batches, 1))),
            ("endpoint changes seen", engine.endpointChanges),
        ]
    }

    /// The counters of dropped packets. The attempt without the pre-shared key causes those with an explanation.
    var drops: [(cause: String, count: UInt64, explanation: String?)] {
        let (engine, lane) = (device.engineStatistics, device.laneStatistics)
        let onPurpose = "on purpose: tried without the pre-shared key"
        return [
            ("malformed datagrams", engine.malformedDatagrams, nil), ("wrong mac1", engine.invalidMac1, nil),
            ("rejected handshakes", engine.rejectedHandshakes, onPurpose),
            ("rate limited", engine.rateLimited + engine.initiationFloods, nil),
            ("unknown session", engine.unknownSession, onPurpose),
            ("not authentic", engine.authenticationFailures, nil), ("replayed", engine.replayed, nil),
            ("malformed packets", engine.malformedPackets, nil), ("source not allowed", engine.disallowedSource, nil),
            ("no route or endpoint", engine.noRoute + engine.noEndpoint, nil),
            ("queue for a session", engine.stagedDropped, onPurpose),
            ("queue of handshakes", engine.outboxDropped, nil),
            ("TUN", UInt64(clamping: lane.droppedByDevice + host.tun.injectionsDropped), nil),
            ("UDP", UInt64(clamping: lane.droppedByNetwork + lane.droppedWithoutSocket), nil),
        ]
    }
}
