// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import NetworkAddresses
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem
    import WireGuardCore

    /// Two culvert-wg daemons in two network namespaces, used by the system's own programs.
    final class NamespaceDemo {
        private let seconds: Int
        private let view: DemoView
        private let lab: NamespaceLab
        private let interruption: Int32
        private var report = NamespaceReport()

        /// Runs every step and removes what was made.
        /// - Returns: the exit status.
        static func run(seconds: Int, json: Bool, view: DemoView, console: Console) -> Int32 {
            guard geteuid() == 0 else {
                console.problem(
                    "culvert: demo --tun makes network namespaces and interfaces, which needs root; "
                        + "try: sudo culvert demo --tun, or without privileges: culvert demo")
                return ExitStatus.failure
            }
            let interruption: Int32
            do throws(DemoFailure) { interruption = try Interruption.prepare() } catch {
                console.problem("culvert: \(error)")
                return ExitStatus.failure
            }
            let demo = NamespaceDemo(seconds: seconds, view: view, interruption: interruption)
            let failure = demo.run()
            if json { console.line(demo.report.json.text) }
            guard let failure else { return ExitStatus.success }
            console.problem("culvert: the demonstration \(failure.isInterruption ? "was" : "failed:") \(failure)")
            return failure.isInterruption ? ExitStatus.interrupted : ExitStatus.failure
        }

        private init(seconds: Int, view: DemoView, interruption: Int32) {
            self.seconds = seconds
            self.view = view
            self.interruption = interruption
            lab = NamespaceLab(interruption: interruption)
        }

        private func run() -> DemoFailure? {
            let start = LaneClock.now()
            view.open("Two culvert-wg daemons in two network namespaces (MTU \(NamespaceLab.mtu))")
            var failure: DemoFailure?
            do throws(DemoFailure) {
                try runSteps()
            } catch {
                failure = error
                view.fail(error.description)
            }
            view.begin("removal")
            let problems = lab.remove()
            if problems.isEmpty {
                view.finish("daemons, interfaces and namespaces are gone")
            } else {
                failure = failure ?? DemoFailure(problems.joined(separator: "; "))
                view.fail(problems.joined(separator: "; "))
            }
            report.failure = failure?.description
            report.elapsed = .nanoseconds(LaneClock.now() - start)
            if failure == nil { view.show(report.summary) }
            return failure
        }

        // MARK: - Steps

        private func runSteps() throws(DemoFailure) {
            view.begin("namespaces")
            try lab.makeNamespaces()
            view.finish("\(lab.client.name) and \(lab.server.name), joined by a veth pair")

            view.begin("daemons")
            guard let program = ProgramFolders.standard.find("culvert-wg") else {
                throw DemoFailure("culvert-wg is not installed: \(ProgramFolders.standard)")
            }
            try lab.startDaemons(program: program)
            try lab.configure()
            let keys = [lab.client, lab.server].map { $0.privateKey.publicKey.base64 }
            view.finish("client \(keys[0]), server \(keys[1])")

            report.firstPing = try ping("handshake", lab.server.tunnelV4, count: 1)
            report.pingsV4 = try ping("ping IPv4", lab.server.tunnelV4, count: 50)
            report.pingsV6 = try ping("ping IPv6", lab.server.tunnelV6, count: 50)
            report.upload = try iperf("upload", reverse: false)
            report.download = try iperf("download", reverse: true)
            try roam()
            let peer = try lab.management(lab.client).get().peers.first
            report.clientSentBytes = peer?.transmittedBytes ?? 0
            report.clientReceivedBytes = peer?.receivedBytes ?? 0
        }

        private func ping(
            _ step: String, _ address: String, count: Int
        ) throws(DemoFailure) -> Pings {
            view.begin(step)
            let outcome = try lab.run(
                ["ping", "-n", "-q", "-c", "\(count)", "-i", "0.02", "-W", count == 1 ? "7" : "1", address],
                in: lab.client, seconds: 10 + count / 5)
            guard let pings = ToolOutput.pings(outcome.output) else {
                throw DemoFailure("ping: \(outcome.output.split(separator: "\n").last ?? "no output")")
            }
            guard pings.answered > 0 else { throw DemoFailure("none of \(pings.sent) pings was answered") }
            if count == 1 {
                let time = pings.mean.map { Figure.decimal($0, places: 3) } ?? "-"
                view.finish("\(time) ms for the first ping: initiation, response, request, reply")
            } else {
                view.finish(pings.text)
            }
            return pings
        }

        private func iperf(_ step: String, reverse: Bool) throws(DemoFailure) -> ToolOutput.Transfer? {
            view.begin(step)
            guard report.hasIperf else { return nil }
            let server: ChildProcess
            do throws(DemoFailure) {
                server = try lab.start(["iperf3", "--server", "--one-off", "--forceflush"], in: lab.server)
                let ending = server.wait(
                    forOutput: "listening", until: LaneClock.now() + 5_000_000_000, interruption: interruption)
                if let outcome = try ending?.outcome() { throw DemoFailure("ended early: \(outcome.lastLine)") }
            } catch {
                guard !error.isInterruption else { throw error }
                report.hasIperf = false
                view.finish("left out: iperf3 is not installed (\(error))")
                return nil
            }
            defer { server.stop() }
            let outcome = try lab.run(
                ["iperf3", "--client", lab.server.tunnelV4, "--time", "\(seconds)", "--format", "m"]
                    + (reverse ? ["--reverse"] : []), in: lab.client, seconds: seconds + 15)
            guard let transfer = ToolOutput.transfer(outcome.output) else {
                throw DemoFailure("iperf3: \(outcome.output.split(separator: "\n").last ?? "no output")")
            }
            view.finish(NamespaceReport.text(transfer))
            return transfer
        }

        /// Gives the client another port, and looks whether the server follows it within the same session.
        private func roam() throws(DemoFailure) {
            view.begin("roaming")
            let before = try lab.management(lab.server).get().peers.first
            let newPort: UInt16 = before?.endpoint?.port == 40_000 ? 40_001 : 40_000
            var update = UAPIDeviceUpdate()
            update.listenPort = newPort
            try lab.management(lab.client).set(update)
            let outcome = try lab.run(
                ["ping", "-n", "-q", "-c", "10", "-i", "0.02", "-W", "1", lab.server.tunnelV4], in: lab.client,
                seconds: 15)
            guard let pings = ToolOutput.pings(outcome.output), pings.answered > 0 else {
                throw DemoFailure("no ping was answered after the client moved")
            }
            let after = try lab.management(lab.server).get().peers.first
            guard after?.endpoint?.port == newPort else {
                throw DemoFailure("the server did not follow the client to port \(newPort)")
            }
            guard after?.lastHandshake == before?.lastHandshake else {
                throw DemoFailure("the session did not outlive the move")
            }
            report.roamedTo = newPort
            view.finish(
                "client moved to port \(newPort), the server followed, no new handshake; "
                    + "\(pings.answered) of \(pings.sent) pings answered")
        }
    }
#endif
