// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// Devices whose gateway restarts while they use their sessions.
    @Suite(
        "Devices after a restart of their gateway", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct GatewayRestartTests {
        @Test(
            "Pings of a Culvert client and of a stock client are answered within 2 s of a restart",
            arguments: [false, true])
        func resumes(isKilled: Bool) throws {
            let scene = try GatewayProgramScene()
            let (anna, ben) = (scene.network.anna, scene.network.ben)
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.run()
            try scene.enrolOffice(of: "anna", in: anna)
            try scene.culvert("up", "office", in: anna)
            let file = scene.files.path + "/phone.conf"
            try scene.culvert("gateway", "user", "add", "ben")
            try scene.culvert("gateway", "peer", "add", "phone", "--user", "ben", "--export", file)
            let daemon = try DaemonProcess(.wireguardGo, in: ben)
            try scene.configure(daemon, with: try String(contentsOfFile: file, encoding: .utf8), via: "198.51.101.1")
            let clients = [("culvert", anna), ("wireguard-go", ben)]
            for (name, device) in clients {
                #expect(try scene.pings(GatewayProgramScene.inner, from: device, patience: 9), "\(name)")
            }

            if isKilled {
                try Wg.run("set", daemon.name, "listen-port", "40404")
                #expect(try scene.pings(GatewayProgramScene.inner, from: ben, patience: 9))
                // Counters are stored every 30 s, endpoints earlier.
                let stored = try eventually("the new endpoint is stored", within: .seconds(10)) {
                    let list = try scene.culvert("gateway", "peer", "list", "--json")
                    return list.components(separatedBy: "lastEndpoint").count == clients.count + 1
                        && list.contains(":40404\"")
                }
                print("gateway: a client's new port was stored \(stored) after a ping from it")
                scene.crash()
            } else {
                try scene.stop()
            }
            // The clients continue to send in their old sessions.
            for (name, device) in clients {
                #expect(try !scene.pings(GatewayProgramScene.inner, from: device), "\(name)")
            }
            let start = ContinuousClock.now
            try scene.run()
            let serving = ContinuousClock.now
            var answers: [String: Duration] = [:]
            try eventually("all pings are answered", within: .seconds(60)) {
                for (name, device) in clients where answers[name] == nil {
                    let ping = try device.runAllowingFailure(
                        "ping", "-n", "-q", "-c", "1", "-W", "0.2", GatewayProgramScene.inner)
                    if ping.status == 0 { answers[name] = .now - serving }
                }
                return answers.count == clients.count
            }
            for (name, outage) in answers.sorted(by: { $0.key < $1.key }) {
                print(
                    """
                    gateway: \(isKilled ? "killed" : "stopped"), and serving again \(serving - start) after its start; \
                    a ping of \(name) was answered \(outage) later
                    """)
                #expect(outage < .seconds(2), "\(name)")
            }
            try scene.culvert("down", "office", in: anna)
            try scene.stop()
        }
    }
#endif
