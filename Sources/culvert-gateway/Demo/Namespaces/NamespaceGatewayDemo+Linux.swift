// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import Gateway
    import PacketTunnel
    import PacketTunnelLinux
    import Provisioning
    import TunnelIO
    import TunnelSystem

    /// A gateway with real interfaces, NAT and firewall, and the programs that people use.
    final class NamespaceGatewayDemo {
        private let seconds: Int
        private let view: DemoView
        private let lab: GatewayLab
        private let interruption: Int32
        private var summary = DemoSummary()

        /// Runs every step and removes what was made.
        /// - Returns: the exit status.
        static func run(seconds: Int, style: DemoView.Style, console: Console) -> Int32 {
            guard geteuid() == 0 else {
                console.problem(
                    "culvert: gateway demo --tun makes network namespaces and interfaces, which needs root; "
                        + "try: sudo culvert gateway demo --tun, or without privileges: culvert gateway demo")
                return ExitStatus.failure
            }
            return SignalledRun.run {
                let cancellation: DescriptorPipe
                do throws(SystemError) { cancellation = try DescriptorPipe() } catch {
                    console.problem("culvert: \(error)")
                    return ExitStatus.failure
                }
                let status = await withTaskCancellationHandler {
                    run(seconds, DemoView(style, console: console), console, cancellation.reader.number)
                } onCancel: {
                    cancellation.writer.close()
                }
                cancellation.reader.close()
                return status
            }
        }

        private static func run(_ seconds: Int, _ view: DemoView, _ console: Console, _ interruption: Int32) -> Int32 {
            let folder: DemoFolder
            do throws(CommandFailure) { folder = try DemoFolder() } catch { return error.tell(console) }
            defer { folder.remove() }
            view.open("A gateway, a device and a server in three network namespaces")
            do {
                let lab = try GatewayLab(folder: folder.path, interruption: interruption)
                guard let failure = NamespaceGatewayDemo(seconds, view, lab, interruption).run() else {
                    return ExitStatus.success
                }
                console.problem("culvert: the demonstration \(failure.isInterruption ? "was" : "failed:") \(failure)")
                return failure.isInterruption ? ExitStatus.interrupted : ExitStatus.failure
            } catch {
                console.problem("culvert: \(error)")
                return ExitStatus.failure
            }
        }

        private init(_ seconds: Int, _ view: DemoView, _ lab: GatewayLab, _ interruption: Int32) {
            (self.seconds, self.view, self.lab, self.interruption) = (seconds, view, lab, interruption)
        }

        private func run() -> DemoFailure? {
            let began = ContinuousClock.now
            var failure: DemoFailure?
            do throws(DemoFailure) { try steps() } catch {
                failure = error
                view.fail(error.description)
            }
            view.begin("removal")
            let problems = lab.remove()
            if problems.isEmpty {
                view.finish("programs, interfaces and namespaces are gone")
            } else {
                failure = failure ?? DemoFailure(problems.joined(separator: "; "))
                view.fail(problems.joined(separator: "; "))
            }
            summary.add("time", Figure.seconds(ContinuousClock.now - began))
            if failure == nil { view.show(summary.lines) }
            return failure
        }

        // MARK: - Steps

        private func steps() throws(DemoFailure) {
            view.begin("namespaces")
            try lab.makeNamespaces()
            view.finish("\(lab.device), \(lab.gateway) and \(lab.server), which knows no way back to the device")

            view.begin("gateway")
            let settings = try lab.makeGateway()
            try lab.startGateway()
            view.finish(
                "culvert-gateway: device API on TCP port \(settings.api.port), WireGuard on UDP port \(settings.wireGuardPort)"
            )

            view.begin("enrolment")
            let user = try text(try lab.ask("POST", "/v1/users", .object(["login": .string("anna")])), "id")
            let invitation = try text(try lab.ask("POST", "/v1/invitations", .object(["user": .string(user)])), "text")
            let start = ContinuousClock.now
            try lab.enrol(invitation)
            let enrolled = ContinuousClock.now - start
            summary.add("enrolment", Figure.milliseconds(enrolled))
            view.finish("culvert enroll, by an invitation with two pins, in \(Figure.milliseconds(enrolled))")

            view.begin("tunnel")
            let beginning = ContinuousClock.now
            try lab.bringUp()
            view.finish(
                "culvert up, with all traffic in the tunnel, in \(Figure.milliseconds(ContinuousClock.now - beginning))"
            )

            let v4 = try ping("ping IPv4", "10.66.0.1")
            let v6 = try ping("ping IPv6", "fd66::1")
            summary.addLost(v4, v6)
            try nat()
            try transfer()
            try firewall(user)
            try revoke()
            view.begin("down")
            try lab.bringDown()
            view.finish("culvert down: the device's network is as it was")
        }

        private func text(_ reply: JSON, _ name: String) throws(DemoFailure) -> String {
            guard let text = reply[name]?.string else { throw DemoFailure("the gateway's answer has no '\(name)'") }
            return text
        }

        private func ping(_ step: String, _ address: String) throws(DemoFailure) -> Pings {
            view.begin(step)
            let outcome = try lab.run(
                ["ping", "-n", "-q", "-c", "50", "-i", "0.02", "-W", "1", address], in: lab.device, seconds: 30)
            guard let pings = ToolOutput.pings(outcome.output) else { throw DemoFailure("ping: \(outcome.lastLine)") }
            guard pings.answered > 0 else { throw DemoFailure("none of \(pings.sent) pings was answered") }
            view.finish(pings.text)
            return pings
        }

        /// The server has no route to the device: it answers the gateway.
        private func nat() throws(DemoFailure) {
            view.begin("NAT")
            for address in [GatewayLab.serverAddress, GatewayLab.serverAddress6] {
                guard try lab.pings(address, within: "5") else { throw DemoFailure("\(address) does not answer") }
            }
            view.finish(
                "\(GatewayLab.serverAddress) and \(GatewayLab.serverAddress6) answer, through the gateway's address")
        }

        private func transfer() throws(DemoFailure) {
            for (step, isReverse) in [("upload", false), ("download", true)] {
                view.begin(step)
                let server = try lab.start(["iperf3", "--server", "--one-off", "--forceflush"], in: lab.server)
                defer { server.stop() }
                let deadline = LaneClock.now() + 5 * LaneClock.nanosecondsPerSecond
                if let ending = server.wait(forOutput: "listening", until: deadline, interruption: interruption) {
                    if case .interrupted = ending { throw .interrupted }
                    view.finish("left out: iperf3 is not installed, or does not start")
                    return
                }
                let outcome = try lab.run(
                    ["iperf3", "--client", GatewayLab.serverAddress, "--time", "\(seconds)", "--format", "m"]
                        + (isReverse ? ["--reverse"] : []), in: lab.device, seconds: seconds + 15)
                guard let transfer = ToolOutput.transfer(outcome.output) else {
                    throw DemoFailure("iperf3: \(outcome.lastLine)")
                }
                let rate = Figure.rate(transfer.megabitsPerSecond * 1e6)
                summary.add("\(step), through NAT", rate)
                view.finish("\(rate) of TCP payload with the server, through tunnel, firewall and NAT")
            }
        }

        private func firewall(_ user: String) throws(DemoFailure) {
            view.begin("firewall")
            func set(_ rules: [(action: String, network: String)]) throws(DemoFailure) {
                let rules = rules.map { rule in
                    JSON.object([
                        "action": .string(rule.action), "direction": .string("out"),
                        "networks": .array([.string(rule.network)]), "transport": .string("any"), "ports": .array([]),
                        "notes": .string(""),
                    ])
                }
                try lab.ask("PUT", "/v1/users/\(user)/rules", .object(["rules": .array(rules)]))
            }
            let deny = (action: "deny", network: "203.0.113.0/24")
            try set([deny])
            try waitUntil("a rule is in force") { () throws(DemoFailure) in
                try !lab.pings(GatewayLab.serverAddress, within: "0.3")
            }
            try set([("allow", "\(GatewayLab.serverAddress)/32"), deny])
            try waitUntil("a rule before it is in force") { () throws(DemoFailure) in
                try lab.pings(GatewayLab.serverAddress, within: "1")
            }
            view.finish("a rule of the user blocks the server's network, and one before it lets the server through")
        }

        private func revoke() throws(DemoFailure) {
            view.begin("revoked")
            guard let device = try lab.ask("GET", "/v1/devices")["items"]?.list?.first else {
                throw DemoFailure("the gateway knows no device")
            }
            let id = try text(device, "id")
            let start = ContinuousClock.now
            try lab.ask("DELETE", "/v1/devices/\(id)")
            try waitUntil("a revoked device is cut off") { () throws(DemoFailure) in
                try !lab.pings("10.66.0.1", within: "0.2")
            }
            let cut = max(ContinuousClock.now - start - .milliseconds(200), .zero)
            summary.add("revoked key cut off after", Figure.milliseconds(cut))
            view.finish("no packet passes \(Figure.milliseconds(cut)) later")
        }

        private func waitUntil(
            _ what: String, _ condition: () throws(DemoFailure) -> Bool
        ) throws(DemoFailure) {
            let deadline = ContinuousClock.now + .seconds(10)
            while try !condition() {
                guard ContinuousClock.now < deadline else { throw DemoFailure("not within 10 s: \(what)") }
            }
        }
    }
#endif
