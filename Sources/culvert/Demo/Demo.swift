// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import NetworkAddresses
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// Two whole WireGuard devices in this process, over real UDP on the loopback interface.
///
/// Nothing polls: each step waits for the packet it is about, under a deadline.
final class Demo {
    /// How much the demonstration does.
    struct Plan {
        /// Echo requests of each series.
        var pings = 100
        /// How long each of the two bulk transfers sends.
        var transfer: Duration = .seconds(3)
    }

    private let plan: Plan
    private let view: DemoView
    private(set) var report = DemoReport()

    init(plan: Plan, view: DemoView) {
        self.plan = plan
        self.view = view
    }

    /// Runs every step. What went wrong, if anything, is in the report as well as on the view.
    func run() {
        let start = LaneClock.now()
        view.open("Two WireGuard devices in one process, over UDP on 127.0.0.1 (MTU \(DemoHost.mtu), no root)")
        do throws(DemoFailure) {
            try runSteps()
        } catch {
            report.failure = error.description
            view.fail(error.description)
        }
        report.elapsed = .nanoseconds(LaneClock.now() - start)
        report.peakResidentBytes = ProcessMemory.peakResidentBytes
        view.show(report.failure == nil ? report.summary : [])
    }

    private func runSteps() throws(DemoFailure) {
        view.begin("devices")
        let client = try wrap { () throws(WireGuardDeviceError) in
            try DemoHost(name: "client", number: 2, peerNumber: 1)
        }
        defer { client.device.close() }
        let server = try wrap { () throws(WireGuardDeviceError) in
            try DemoHost(name: "server", number: 1, peerNumber: 2)
        }
        defer { server.device.close() }
        try start(client, server)
        defer { collect(client, server) }

        try handshake(client, server)
        report.pingsV4 = try pings("ping IPv4", client.v4, server.v4, from: client)
        report.pingsV6 = try pings("ping IPv6", client.v6, server.v6, from: client)
        report.upload = try transfer("upload", run: 1, from: client, to: server)
        report.download = try transfer("download", run: 2, from: server, to: client)
        try roam(client, server)
        try changePresharedKey(client, server)
        collect(client, server)
        let unexplained = report.drops.filter(\.isUnexplained)
        guard unexplained.isEmpty else {
            let list = unexplained.map { "\($0.cause) (\($0.client + $0.server))" }.joined(separator: ", ")
            throw DemoFailure("packets were dropped for no good reason: \(list)")
        }
    }

    // MARK: - Steps

    private func start(_ client: DemoHost, _ server: DemoHost) throws(DemoFailure) {
        try wrap { () throws(WireGuardDeviceError) in
            try server.device.start()
            try client.device.start()
        }
        guard let serverPort = server.device.listenPort, let clientPort = client.device.listenPort else {
            throw DemoFailure("no UDP port could be bound")
        }
        try apply(to: server, key: server.privateKey, [client.peerUpdate(endpointPort: nil)])
        try apply(to: client, key: client.privateKey, [server.peerUpdate(endpointPort: serverPort)])
        view.finish(
            "client \(client.publicKey) on port \(clientPort), server \(server.publicKey) on port \(serverPort)")
    }

    private func handshake(_ client: DemoHost, _ server: DemoHost) throws(DemoFailure) {
        view.begin("handshake")
        let duration = try firstPacket(client, server, identifier: 1)
        report.handshake = duration
        view.finish(
            "\(Figure.milliseconds(duration)) from the first packet to its delivery: initiation, response, data")
    }

    private func pings(
        _ step: String, _ source: IPAddress, _ destination: IPAddress, from host: DemoHost
    ) throws(DemoFailure) -> Pings {
        view.begin(step)
        let pings = ping(source, destination, from: host, identifier: 2)
        guard pings.answered > 0 else { throw DemoFailure("none of \(pings.sent) pings was answered") }
        view.finish(pings.text)
        return pings
    }

    private func transfer(
        _ step: String, run: UInt32, from sender: DemoHost, to receiver: DemoHost
    ) throws(DemoFailure) -> BulkTransfer.Result {
        view.begin(step)
        var transfer = try BulkTransfer(run: run, from: sender, to: receiver)
        let view = view
        let result = try transfer.send(for: plan.transfer) { samples, elapsed in
            let line = Sparkline.text(samples, width: 30)
            view.progress("\(Figure.rate(samples.last ?? 0))  \(line)  \(Figure.seconds(elapsed))")
        }
        guard result.received > 0 else { throw DemoFailure("nothing arrived") }
        guard result.damaged == 0 else {
            throw DemoFailure("\(result.damaged) packets arrived with other bytes than were sent")
        }
        view.finish(DemoReport.text(result))
        return result
    }

    private func roam(_ client: DemoHost, _ server: DemoHost) throws(DemoFailure) {
        view.begin("roaming")
        let oldPort = server.device.peer(client.publicKey)?.endpoint?.port ?? 0
        let before = handshakeMessages(client, server)
        try wrap { () throws(WireGuardDeviceError) in try client.device.rebind() }
        let newPort = client.device.listenPort ?? 0
        guard newPort != oldPort else { throw DemoFailure("the client was given port \(oldPort) again") }
        let pings = ping(client.v4, server.v4, from: client, identifier: 3)
        let seenPort = server.device.peer(client.publicKey)?.endpoint?.port ?? 0
        let roaming = DemoReport.Roaming(
            oldPort: oldPort, newPort: newPort, seenPort: seenPort,
            newHandshakes: handshakeMessages(client, server) - before, pings: pings)
        report.roaming = roaming
        guard pings.answered > 0 else { throw DemoFailure("no ping was answered after the client moved") }
        guard seenPort == newPort else {
            throw DemoFailure("the server sends to port \(seenPort), but the client moved to \(newPort)")
        }
        guard roaming.newHandshakes == 0 else { throw DemoFailure("the session did not outlive the move") }
        view.finish(
            "client moved from port \(oldPort) to \(newPort), the server followed, no new handshake; "
                + "\(pings.answered) of \(pings.sent) pings answered")
    }

    private func changePresharedKey(_ client: DemoHost, _ server: DemoHost) throws(DemoFailure) {
        view.begin("pre-shared key")
        var generator = SystemRandomNumberGenerator()
        let key = PresharedKey(using: &generator)
        let port = server.device.listenPort
        var forget = UAPIPeerUpdate(publicKey: server.publicKey)
        forget.remove = true
        // The server alone has it: a new handshake must fail.
        try apply(to: server, key: nil, [client.peerUpdate(endpointPort: nil, presharedKey: key)])
        try apply(to: client, key: nil, [forget, server.peerUpdate(endpointPort: port)])
        view.progress("without it on one side")
        guard answer(to: 0, identifier: 4, client.v4, server.v4, from: client, within: 300_000_000) == nil else {
            throw DemoFailure("a ping was answered although the pre-shared keys differ")
        }
        try apply(to: client, key: nil, [forget, server.peerUpdate(endpointPort: port, presharedKey: key)])
        let duration = try firstPacket(client, server, identifier: 5)
        report.presharedHandshake = duration
        view.finish("no answer while only the server had it; with it on both sides \(Figure.milliseconds(duration))")
    }

    // MARK: - Parts of steps

    /// Sends a packet that needs a handshake; gives the time until the other end has it.
    private func firstPacket(
        _ client: DemoHost, _ server: DemoHost, identifier: UInt16
    ) throws(DemoFailure) -> Duration {
        server.state.withValue { $0.requestArrival = nil }
        let start = LaneClock.now()
        let isAnswered =
            answer(
                to: 0, identifier: identifier, client.v4, server.v4, from: client, within: 6_000_000_000) != nil
        guard isAnswered, let arrival = server.state.withValue({ $0.requestArrival }) else {
            throw DemoFailure("no session within 6 s; is UDP on 127.0.0.1 blocked by a firewall?")
        }
        return .nanoseconds(arrival - start)
    }

    private func ping(
        _ source: IPAddress, _ destination: IPAddress, from host: DemoHost, identifier: UInt16
    ) -> Pings {
        var (sent, roundTrips): (Int, [Duration]) = (0, [])
        for sequence in 0..<UInt16(clamping: plan.pings) {
            sent += 1
            let roundTrip = answer(
                to: sequence, identifier: identifier, source, destination, from: host, within: 1_000_000_000)
            if let roundTrip { roundTrips.append(roundTrip) }
            // One that is lost takes a second, and ten of them tell enough.
            if sent - roundTrips.count >= 10 { break }
        }
        return Pings(sent: sent, roundTrips: roundTrips)
    }

    /// Sends an echo request; gives the round-trip time, or nil when there is no answer.
    private func answer(
        to sequence: UInt16, identifier: UInt16, _ source: IPAddress,
        _ destination: IPAddress, from host: DemoHost, within nanoseconds: Int64
    ) -> Duration? {
        let packet = PacketBuilder.icmpEcho(
            from: source, to: destination, identifier: identifier, sequence: sequence,
            payload: Array(repeating: 0x77, count: 56))
        let start = LaneClock.now()
        guard host.tun.inject(packet) else { return nil }
        return host.state.wait(until: start + nanoseconds) { state in
            guard let reply = state.reply, reply.identifier == identifier, reply.sequence == sequence,
                reply.arrival >= start
            else { return nil }
            return .nanoseconds(reply.arrival - start)
        }
    }

    private func apply(
        to host: DemoHost, key: PrivateKey?, _ peers: [UAPIPeerUpdate]
    ) throws(DemoFailure) {
        var update = UAPIDeviceUpdate()
        update.privateKey = key.map { .set($0) } ?? .unchanged
        update.peers = peers
        try wrap { () throws(WireGuardDeviceError) in try host.device.apply(update) }
    }

    private func handshakeMessages(_ client: DemoHost, _ server: DemoHost) -> UInt64 {
        [client, server].reduce(0) { $0 + $1.device.engineStatistics.initiationsSent }
    }

    private func collect(_ client: DemoHost, _ server: DemoHost) {
        report.client = end(client, peer: server)
        report.server = end(server, peer: client)
    }

    private func end(_ host: DemoHost, peer: DemoHost) -> DemoReport.End {
        let state = host.device.peer(peer.publicKey)
        return DemoReport.End(
            publicKey: host.publicKey, port: host.device.listenPort ?? 0, engine: host.device.engineStatistics,
            lane: host.device.laneStatistics, injectionsDropped: host.tun.injectionsDropped,
            sentBytes: state?.sentBytes ?? 0, receivedBytes: state?.receivedBytes ?? 0)
    }

    private func wrap<R>(_ body: () throws(WireGuardDeviceError) -> R) throws(DemoFailure) -> R {
        do throws(WireGuardDeviceError) { return try body() } catch { throw DemoFailure(error.description) }
    }
}
