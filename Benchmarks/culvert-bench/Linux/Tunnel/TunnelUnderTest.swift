// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// A tunnel implementation in the comparison.
struct Contender {
    enum Kind {
        /// A WireGuard daemon with wireguard-go's command line.
        case wireGuard
        /// The C program of `Benchmarks/Baseline`: not WireGuard, but the work that every tunnel must do.
        case baseline
        /// One process that copies packets from one TUN device to the other, without encryption or network.
        case copy
    }

    var name: String
    var kind: Kind
    var program: String
    /// Variables of a daemon's environment, as `NAME=VALUE`.
    var environment: [String] = []
}

/// A tunnel between two separate namespaces, with the same set-up for all contenders. iperf3's server is on side 1.
final class TunnelUnderTest {
    let contender: Contender
    let pair: NamespacePair
    private(set) var daemons: [Process] = []
    /// iperf3's server.
    private(set) var server: Process?

    var name: String { contender.name }

    /// - Parameter tag: see ``NamespacePair/init(tag:)``.
    init(_ contender: Contender, tag: String) {
        self.contender = contender
        pair = NamespacePair(tag: tag)
    }

    func start() throws {
        try pair.make()
        switch contender.kind {
        case .wireGuard: try startWireGuard()
        case .baseline: try startBaseline()
        case .copy: try startCopy()
        }
        server = try Shell.start(pair.enter(1) + ["iperf3", "-s", "-f", "k"])
        try waitForTunnel()
    }

    private func startWireGuard() throws {
        let keys = [WireGuardSetting.newKey(), WireGuardSetting.newKey()]
        for side in 0...1 {
            let daemon = try WireGuardDaemon.start(contender, side: side, of: pair)
            daemons.append(daemon)
            try WireGuardDaemon.wait(for: daemon, name, side: side, of: pair)
            let other = WireGuardSetting.Peer(
                key: try WireGuardSetting.publicKey(of: keys[1 - side]),
                allowedIPs: "\(NamespacePair.inside[1 - side])/32",
                endpoint: "\(NamespacePair.outside[1 - side]):\(WireGuardSetting.port)")
            try WireGuardSetting(privateKey: keys[side], peers: [other]).apply(to: side, of: pair)
            try pair.bringUp(side)
        }
    }

    private func startBaseline() throws {
        for side in 0...1 {
            let daemon = try Shell.start(
                pair.enter(side) + [
                    contender.program, "--tun", pair.interfaces[side], "--role", String(side), "--local",
                    "\(NamespacePair.outside[side]):5000", "--peer", "\(NamespacePair.outside[1 - side]):5000",
                    "--crypto", "boring", "--single",
                ],
                errors: FileHandle.standardError)
            daemons.append(daemon)
            try waitForInterface(side, of: daemon) { try self.pair.ip(side, "link", "show", "dev", $0) }
            try pair.bringUp(side)
        }
    }

    private func startCopy() throws {
        let daemon = try Shell.start(
            [contender.program, TunCopy.command] + pair.interfaces, errors: FileHandle.standardError)
        daemons.append(daemon)
        for side in 0...1 {
            try waitForInterface(side, of: daemon) { try Shell.run(["ip", "link", "show", "dev", $0]) }
            try Shell.run(["ip", "link", "set", "dev", pair.interfaces[side], "netns", pair.names[side]])
            try pair.bringUp(side)
        }
    }

    private func waitForInterface(_ side: Int, of daemon: Process, _ look: (String) throws -> String) throws {
        for _ in 0..<200 where daemon.isRunning {
            if (try? look(pair.interfaces[side])) != nil { return }
            usleep(20_000)
        }
        throw BenchmarkError("\(name) does not make its interface")
    }

    private func waitForTunnel() throws {
        for _ in 0..<10
        where (try? Shell.run(pair.enter(0) + ["ping", "-c", "1", "-W", "1", NamespacePair.inside[1]])) != nil {
            return
        }
        throw BenchmarkError("\(name): no packets come through")
    }

    /// Ends the daemons and removes the namespaces, in any state.
    func stop() {
        WireGuardDaemon.stop(([server].compactMap { $0 }) + daemons)
        daemons = []
        server = nil
        pair.remove()
    }
}
