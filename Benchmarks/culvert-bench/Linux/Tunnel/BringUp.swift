// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The time from the start of a command that brings a tunnel up to the first answered ping through it: `culvert up`, and
/// `wg-quick up` with culvert-wg as its daemon. Both read the same file, in the same namespace, by turns.
enum BringUp {
    static func measure(_ plan: TunnelPlan, _ cleaner: Cleaner, _ table: inout SampleTable) throws {
        guard let culvert = plan.culvert else {
            return Program.note("no culvert next to \(plan.daemon): its start is not measured; see --culvert")
        }
        try Tools.require(["wg-quick", "nft", culvert])
        let scene = try Scene(daemon: plan.daemon, culvert: culvert)
        cleaner.atEnd { scene.stop() }
        try scene.start()
        guard !scene.hasKernelWireGuard else {
            return Program.note("this kernel has WireGuard, so wg-quick would not use culvert-wg: not measured")
        }
        let commands = [(ContenderName.culvertUp, scene.culvertWords), (ContenderName.wgQuickUp, scene.wgQuickWords)]
        // Many rounds cost little compared with the transfers. The first one reads the programs from the disk.
        let rounds = plan.isQuick ? 1 : 4 * plan.rounds
        for round in 0...rounds {
            for index in commands.indices {
                let (name, words) = commands[(index + round) % commands.count]
                Program.note("bringing up \(round) of \(rounds): \(name)")
                let taken = try scene.measure(words)
                if round > 0 { table.add(.bringUp, name, taken) }
            }
        }
        cleaner.clean()
    }

    /// The timed part, in one shell. Prints microseconds.
    private static let script = """
        set -eu
        log=$1 other=$2
        shift 2
        begun=${EPOCHREALTIME//[.,]/}
        "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; exit 1; }
        ping -n -c 1 -W 5 "$other" >/dev/null
        ended=${EPOCHREALTIME//[.,]/}
        echo $((ended - begun))
        """

    /// Two namespaces: the tunnel is brought up in the first, and the daemon in the second keeps running.
    private final class Scene {
        private let daemon: String
        private let culvert: String
        private let pair = NamespacePair(tag: "p")
        private let folder: URL
        private let file: String
        private let other: WireGuardSetting
        private var processes: [Process] = []

        init(daemon: String, culvert: String) throws {
            (self.daemon, self.culvert) = (daemon, culvert)
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-bench-\(UUID())")
            file = folder.appendingPathComponent("\(pair.interfaces[0]).conf").path
            let keys = [WireGuardSetting.newKey(), WireGuardSetting.newKey()]
            func setting(_ side: Int, allowedIPs: String, endpoint: String?) throws -> WireGuardSetting {
                let peer = WireGuardSetting.Peer(
                    key: try WireGuardSetting.publicKey(of: keys[1 - side]), allowedIPs: allowedIPs, endpoint: endpoint)
                return WireGuardSetting(privateKey: keys[side], peers: [peer])
            }
            other = try setting(1, allowedIPs: "\(NamespacePair.inside[0])/32", endpoint: nil)
            var own = try setting(
                0, allowedIPs: "0.0.0.0/0", endpoint: "\(NamespacePair.outside[1]):\(WireGuardSetting.port)")
            own.address = "\(NamespacePair.inside[0])/24"
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try own.write(to: file)
        }

        func start() throws {
            try pair.make()
            let contender = Contender(name: ContenderName.culvert, kind: .wireGuard, program: daemon)
            let process = try WireGuardDaemon.start(contender, side: 1, of: pair)
            processes.append(process)
            try WireGuardDaemon.wait(for: process, ContenderName.culvert, side: 1, of: pair)
            try other.apply(to: 1, of: pair)
            try pair.bringUp(1)
            // A client has a default route.
            try pair.ip(0, "route", "add", "default", "via", NamespacePair.outside[1])
        }

        /// Whether the kernel makes a WireGuard interface, which wg-quick prefers to a daemon.
        var hasKernelWireGuard: Bool {
            let name = pair.interfaces[0]
            guard (try? pair.ip(0, "link", "add", name, "type", "wireguard")) != nil else { return false }
            _ = try? pair.ip(0, "link", "delete", name)
            return true
        }

        /// The words of a command, followed by `up` or `down`.
        typealias Words = (_ verb: String) -> [String]

        func culvertWords(_ verb: String) -> [String] {
            ["env", "CULVERT_RUNTIME_DIRECTORY=\(folder.path)/run", culvert, verb, file]
        }

        func wgQuickWords(_ verb: String) -> [String] {
            ["env", "WG_QUICK_USERSPACE_IMPLEMENTATION=\(daemon)", "wg-quick", verb, file]
        }

        /// Milliseconds.
        func measure(_ words: Words) throws -> Double {
            let log = folder.appendingPathComponent("output").path
            let text = try Shell.run(
                pair.enter(0) + ["bash", "-c", BringUp.script, "bring-up", log, NamespacePair.inside[1]] + words("up"))
            try Shell.run(pair.enter(0) + words("down"))
            guard let taken = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                throw BenchmarkError("no time: \(text)")
            }
            return taken / 1000
        }

        func stop() {
            // A measurement that failed may have left a tunnel up.
            for words in [culvertWords, wgQuickWords] { _ = try? Shell.run(pair.enter(0) + words("down")) }
            WireGuardDaemon.stop(processes)
            processes = []
            pair.remove()
            try? FileManager.default.removeItem(at: folder)
        }
    }
}
