// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The time from the start of a daemon's program to the first answered ping through it, with all steps between: its
/// management socket, `wg setconf`, address, link, handshake. The other end runs already.
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

    /// The timed part: one shell, so that program starts add as little time as possible. Prints microseconds.
    private static let script = """
        set -eu
        program=$1 interface=$2 setting=$3 own=$4 other=$5
        begun=${EPOCHREALTIME//[.,]/}
        WG_PROCESS_FOREGROUND=1 LOG_LEVEL=error "$program" -f "$interface" </dev/null >/dev/null &
        daemon=$!
        trap 'kill "$daemon" 2>/dev/null; wait "$daemon" || true' EXIT
        for ((attempt = 0; attempt < 3000; attempt++)); do
            [[ ! -S /var/run/wireguard/$interface.sock ]] || break
            sleep 0.001
        done
        wg setconf "$interface" "$setting"
        ip address add "$own/24" dev "$interface"
        ip link set "$interface" mtu 1420 up
        ping -n -c 1 -W 5 "$other" >/dev/null
        ended=${EPOCHREALTIME//[.,]/}
        echo $((ended - begun))
        """

    /// A pair of daemons: one is restarted in each round, the other keeps running.
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

        func startOther() throws {
            try pair.make()
            let daemon = try WireGuardDaemon.start(contender, side: 1, of: pair)
            daemons.append(daemon)
            try WireGuardDaemon.wait(for: daemon, contender.name, side: 1, of: pair)
            try settings[1].apply(to: 1, of: pair)
            try pair.bringUp(1)
        }

        /// Milliseconds.
        func measure() throws -> Double {
            var text = ""
            try settings[0].withFile { file in
                text = try Shell.run(
                    pair.enter(0) + ["env"] + contender.environment + [
                        "bash", "-c", StartUp.script, "start-up", contender.program, pair.interfaces[0], file,
                        NamespacePair.inside[0], NamespacePair.inside[1],
                    ])
            }
            guard let taken = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                throw BenchmarkError("\(contender.name): no start-up time: \(text)")
            }
            return taken / 1000
        }

        func stop() {
            WireGuardDaemon.stop(daemons)
            daemons = []
            pair.remove()
        }
    }
}
