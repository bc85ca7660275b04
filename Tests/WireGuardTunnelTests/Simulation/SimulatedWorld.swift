// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import WireGuardCore

@testable import WireGuardTunnel

/// A socket of the phone: it sends from the network that the phone was attached to when it was bound.
struct SimulatedSocket: Hashable, Sendable {
    var port: UInt16
    var network: Int?
}

/// A datagram between the phone and a server.
struct SimulatedFlight: Sendable {
    var source: Endpoint
    var destination: Endpoint
    /// Whether the datagram is for the phone's socket and network, which an answer must match.
    var isToPhone: Bool
    var bytes: [UInt8]
}

/// A network that the phone can be attached to: its families, its NAT and its quality.
struct SimulatedNetwork {
    struct Mapping {
        var port: UInt16
        var lastUsed: Duration
    }

    var name: String
    var kind: NetworkPath.InterfaceKind
    var hasIPv4 = true
    var hasIPv6 = false
    /// The prefix under which IPv4 is reached; then `hasIPv4` is false.
    var nat64: NAT64Prefix?
    /// Whether the name servers return mapped addresses; if not, only the well-known name shows the prefix.
    var hasDNS64 = true
    var publicV4: IPAddress
    var publicV6: IPAddress
    var natTimeout: Duration = .seconds(120)
    /// The address mappings, by the phone's port.
    var mappings: [UInt16: Mapping] = [:]
    var conditions = LinkConditions(delay: .milliseconds(10) ... .milliseconds(30))
    /// Whether a log-in page intercepts all traffic.
    var isCaptive = false
    /// Whether no packet passes, although the phone is attached.
    var isCut = false

    var path: NetworkPath {
        NetworkPath(
            interfaces: [.init(name: name, kind: kind)], ssid: kind == .wifi ? name : nil, supportsIPv4: hasIPv4,
            supportsIPv6: hasIPv6 || nat64 != nil)
    }
}

/// The networks, the name servers and the server, in simulated time. The phone's clock stands still while it sleeps, and
/// then catches up. One thread at a time uses it.
final class SimulatedWorld: @unchecked Sendable {
    static let port: UInt16 = 51_820
    static let serverName = "vpn.example"

    let clock = VirtualClock()
    /// The time since midnight.
    var now: Duration = .zero
    private var random: SeededGenerator
    private var nextSeed: UInt64

    // MARK: The phone

    var networks: [SimulatedNetwork] = []
    /// The index of the attached network; `nil` if there is none.
    var attached: Int?
    weak var plane: SimulatedPlane?
    private var nextPort: UInt16 = 20_000
    private var nextMapping: UInt16 = 1_024

    // MARK: The server

    let serverKey: PrivateKey
    let phoneKey: PrivateKey
    let innerAddresses: [IPPrefix]
    private var server: Engine
    var isServerUp = true
    /// The last byte of its addresses, which changes when it moves.
    var serverNumber: UInt32 = 1
    /// The server's number according to the name servers.
    var publishedNumber: UInt32 = 1
    var serverHasIPv6 = true
    let behind = VirtualNetwork()
    /// Called with each packet that leaves the tunnel at the server.
    var onArrival: ([UInt8]) -> Void = { _ in }

    // MARK: The link

    private var link: LossyLink<SimulatedFlight>
    /// Called with each problem found.
    var onProblem: (String) -> Void = { _ in }
    private(set) var datagrams = 0

    init(seed: UInt64, inner: [IPPrefix]) {
        random = SeededGenerator(seed: seed &+ 11)
        nextSeed = seed &* 31
        serverKey = PrivateKey(using: &random)
        phoneKey = PrivateKey(using: &random)
        innerAddresses = inner
        link = LossyLink(seed: seed &+ 12) { flight, generator in
            guard !flight.bytes.isEmpty else { return }
            flight.bytes[generator.int(in: 0..<flight.bytes.count)] ^= UInt8(1 << generator.int(in: 0..<8))
        }
        server = Engine(random: SeededGenerator(seed: 0))
        startServer()
    }

    func makeGenerator() -> SeededGenerator {
        nextSeed &+= 1
        return SeededGenerator(seed: nextSeed)
    }

    // MARK: - Clocks

    private static let epoch: Int64 = 1_700_000_000
    private static let uptime: Duration = .seconds(3_600)

    private static func wall(_ time: Duration) -> WallTime {
        let (seconds, attoseconds) = time.components
        return WallTime(seconds: epoch + seconds, nanoseconds: UInt32(attoseconds / 1_000_000_000))
    }

    private static func instant(_ time: Duration) -> Instant {
        Instant(nanoseconds: (time + uptime).wholeNanoseconds)
    }

    var phoneNow: Instant { Self.instant(clock.now.offset) }
    var phoneWall: WallTime { Self.wall(clock.now.offset) }
    private var serverNow: Instant { Self.instant(now) }
    private var serverWall: WallTime { Self.wall(now) }

    /// The time of the next datagram or of the server's next timer.
    var nextEvent: Duration? {
        var earliest = link.nextDelivery.map { Duration.nanoseconds($0) }
        if let deadline = server.nextDeadline {
            let time = Duration.nanoseconds(deadline.nanoseconds) - Self.uptime
            earliest = min(earliest ?? time, time)
        }
        return earliest
    }

    /// The time of the next timer of the phone's WireGuard.
    var nextPhoneEvent: Duration? {
        plane?.nextDeadline.map { Duration.nanoseconds($0.nanoseconds) - Self.uptime }
    }

    /// Performs the actions that are due.
    func carryOut(isAwake: Bool) {
        for flight in link.deliver(upTo: now.wholeNanoseconds) {
            if flight.isToPhone { arriveAtPhone(flight, isAwake) } else { arriveAtServer(flight) }
        }
        if let deadline = server.nextDeadline, deadline <= serverNow {
            server.deadlineReached(at: serverNow, wall: serverWall)
            flushServer()
        }
        if isAwake, let plane, let deadline = plane.nextDeadline, deadline <= phoneNow { plane.deadlineReached() }
    }

    // MARK: - The server

    /// Starts the server; earlier sessions are lost.
    func startServer() {
        server = Engine(random: makeGenerator())
        server.setPrivateKey(serverKey)
        server.addPeer(phoneKey.publicKey)
        for prefix in innerAddresses { server.addAllowedIP(prefix, to: phoneKey.publicKey) }
        server.setUp(true, at: serverNow, wall: serverWall)
    }

    func serverV4(_ number: UInt32) -> UInt32 { 0xc633_6400 + number }
    func serverV6(_ number: UInt32) -> IPAddress { IPAddress.v6(0x2001_0db8_0005_0000, UInt64(number)) }

    /// Returns the number of a current or former address of the server, or `nil`.
    private func number(of address: IPAddress) -> UInt32? {
        (1...serverNumber).first { IPAddress.v4(serverV4($0)) == address || serverV6($0) == address }
    }

    /// Whether a network maps the server to this address.
    private func isMapped(_ address: IPAddress) -> Bool {
        networks.contains { network in
            guard let prefix = network.nat64 else { return false }
            return (1...serverNumber).contains { prefix.embed(serverV4($0)) == address }
        }
    }

    private func arriveAtServer(_ flight: SimulatedFlight) {
        guard isServerUp, number(of: flight.destination.address) == serverNumber,
            flight.destination.port == Self.port
        else { return }
        let packet = server.receive(flight.bytes, from: flight.source, at: serverNow, wall: serverWall)
        flushServer()
        guard let packet else { return }
        onArrival(packet)
        guard let answer = behind.receive(packet) else { return }
        for datagram in server.send(answer, at: serverNow, wall: serverWall) { transmitFromServer(datagram) }
    }

    private func flushServer() {
        for datagram in server.drainAll(at: serverNow, wall: serverWall) { transmitFromServer(datagram) }
    }

    private func transmitFromServer(_ datagram: OutgoingDatagram) {
        guard isServerUp else { return }
        let isV4 = datagram.endpoint.address.family == .v4
        let address = isV4 ? IPAddress.v4(serverV4(serverNumber)) : serverV6(serverNumber)
        send(
            SimulatedFlight(
                source: Endpoint(address: address, port: Self.port), destination: datagram.endpoint, isToPhone: true,
                bytes: datagram.bytes))
    }

    // MARK: - The phone's sockets

    func bind(port: UInt16) -> SimulatedSocket {
        nextPort = nextPort >= 60_000 ? 20_000 : nextPort + 1
        return SimulatedSocket(port: port == 0 ? nextPort : port, network: attached)
    }

    /// Sends a datagram of the phone. A datagram that is not for the server must not leave the tunnel.
    func transmit(_ datagram: OutgoingDatagram, from socket: SimulatedSocket) {
        guard let attached, socket.network == attached else { return }
        var network = networks[attached]
        var destination = datagram.endpoint
        if let prefix = network.nat64, destination.address.family == .v6 {
            for number in 1...serverNumber {
                if prefix.embed(serverV4(number)) == destination.address {
                    destination.address = IPAddress.v4(serverV4(number))
                }
            }
        }
        // On a captive network names may resolve to the log-in page, so a handshake may go there. An address mapped by
        // another network may be tried here until names are resolved again.
        let isKnown =
            number(of: destination.address) != nil || destination.address == Self.portal
            || isMapped(destination.address)
        if !isKnown || destination.port != Self.port {
            onProblem("a datagram left for \(datagram.endpoint), which is no server")
        }
        datagrams += 1
        guard !network.isCaptive, !network.isCut else { return }
        let source: Endpoint
        if destination.address.family == .v4 {
            guard network.hasIPv4 || network.nat64 != nil, datagram.endpoint.address.family == .v6 || network.hasIPv4
            else { return }
            var mapping = network.mappings[socket.port]
            if mapping.map({ now - $0.lastUsed > network.natTimeout }) ?? true {
                nextMapping = nextMapping >= 65_000 ? 1_024 : nextMapping + 1
                mapping = .init(port: nextMapping, lastUsed: now)
            }
            mapping?.lastUsed = now
            network.mappings[socket.port] = mapping
            networks[attached] = network
            source = Endpoint(address: network.publicV4, port: mapping?.port ?? 0)
        } else {
            guard network.hasIPv6, serverHasIPv6 else { return }
            source = Endpoint(address: network.publicV6, port: socket.port)
        }
        send(SimulatedFlight(source: source, destination: destination, isToPhone: false, bytes: datagram.bytes))
    }

    static let portal = IPAddress.v4(0x0a01_0101)

    private func send(_ flight: SimulatedFlight) {
        if let attached { link.conditions = networks[attached].conditions }
        link.send(flight, at: now.wholeNanoseconds)
    }

    private func arriveAtPhone(_ flight: SimulatedFlight, _ isAwake: Bool) {
        guard isAwake, let plane, let attached, plane.socket.network == attached else { return }
        let network = networks[attached]
        guard !network.isCaptive, !network.isCut else { return }
        var source = flight.source
        if flight.destination.address.family == .v4 {
            guard flight.destination.address == network.publicV4,
                let mapping = network.mappings[plane.socket.port], mapping.port == flight.destination.port,
                now - mapping.lastUsed <= network.natTimeout
            else { return }
            networks[attached].mappings[plane.socket.port]?.lastUsed = now
            if let prefix = network.nat64 {
                source.address = prefix.embed(UInt32(truncatingIfNeeded: source.address.low))
            }
        } else {
            guard flight.destination == Endpoint(address: network.publicV6, port: plane.socket.port) else { return }
        }
        plane.receive(flight.bytes, from: source)
    }

    /// Forgets the mappings of each NAT, as when a router restarts.
    func forgetMappings() {
        for index in networks.indices { networks[index].mappings = [:] }
    }
}
