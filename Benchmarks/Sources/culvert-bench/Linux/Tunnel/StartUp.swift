// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The time from the start of a daemon's program to the first ping that is answered through it, with all that lies between:
/// its management socket, `wg setconf`, address, link, handshake. The other end runs already.
enum StartUp {
    static func measure(
        _ contenders: [Contender], rounds: Int, _ cleaner: Cleaner, _ table: inout SampleTable
    ) throws {
        let ends = try zip(contenders, ["s", "t", "q", "r"]).map { contender, tag in
            let end = try End(contender, tag: tag)
            cleaner.atEnd { end.stop() }
            return end
        }
        for end in ends { try end.startOther() }
        // Many rounds cost little here.
        for round in 0..<(2 * rounds) {
            for index in ends.indices {
                let end = ends[(index + round) % ends.count]
                Program.note("start-up \(round + 1) of \(2 * rounds): \(end.contender.name)")
                table.add(.startUp, end.contender.name, try end.measure())
            }
        }
        cleaner.clean()
    }

    /// A daemon that is started over and over, and one that stays.
    private final class End {
        let contender: Contender
        private let pair: NamespacePair
        private let settings: [WireGuardSetting]
        private var daemons: [Process] = []

        init(_ contender: Contender, tag: String) throws {
            self.contender = contender
            pair = NamespacePair(tag: tag)
            let keys = [WireGuardSetting.newKey(), WireGuardSetting.newKey()]
            settings = try (0...1).map { side in
                let other = WireGuardSetting.Peer(
                    key: try WireGuardSetting.publicKey(of: keys[1 - side]),
                    allowedIPs: "\(NamespacePair.inside[1 - side])/32",
                    endpoint: "\(NamespacePair.outside[1 - side]):\(WireGuardSetting.port)")
                return WireGuardSetting(privateKey: keys[side], peers: [other])
            }
        }

        private func start(_ side: Int) throws -> Process {
            let daemon = try WireGuardDaemon.start(contender.program, side: side, of: pair)
            daemons.append(daemon)
            try WireGuardDaemon.wait(for: daemon, contender.name, side: side, of: pair)
            try settings[side].apply(to: side, of: pair)
            try pair.bringUp(side)
            return daemon
        }

        func startOther() throws {
            try pair.make()
            _ = try start(1)
        }

        func measure() throws -> Double {
            let began = nanoseconds()
            let daemon = try start(0)
            // Each attempt waits for its answer, so the first one answered is not a late one.
            try Shell.run(
                pair.enter(0) + ["ping", "-n", "-c", "1", "-W", "5", NamespacePair.inside[1]])
            let taken = Double(nanoseconds() - began) / 1e6
            WireGuardDaemon.stop([daemon])
            daemons.removeAll { $0 === daemon }
            return taken
        }

        func stop() {
            WireGuardDaemon.stop(daemons)
            daemons = []
            pair.remove()
        }
    }
}
