// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses
    import PacketTunnel
    import Synchronization
    import Testing
    import TunnelIO
    import TunnelSystem

    @testable import PacketTunnelLinux

    @Suite("Programs that another process starts", .timeLimit(.minutes(2)))
    struct ProgramServerTests {
        private static func command(_ text: String) -> ProgramScope.Command {
            ProgramScope.Command("/bin/sh", arguments: ["sh", "-c", text], environment: ["PATH=/usr/bin:/bin", "A=b"])
        }

        private func client(_ commands: [String], file: String? = nil) throws -> ProgramClient {
            _ = signal(SIGPIPE, SIG_IGN)
            return try ProgramClient(
                servedHere: ProgramScope(
                    tunnel: "wg0", commands: commands.map(Self.command), file: file, bindsLowPort: false))
        }

        @Test("A command in the scope runs with its environment and input; others are refused, and a slow one is ended")
        func commands() throws {
            let client = try client(["echo $A; cat; exit 3", "sleep 1000"])
            guard
                case .ended(let outcome) = client.run(command: 0, input: Array("in\n".utf8), seconds: 60, by: .commands)
            else {
                Issue.record("it did not end")
                return
            }
            #expect(outcome == ChildProcess.Outcome(status: 3, output: "b\nin\n"))
            guard case .notStarted(EPERM) = client.run(command: 2, seconds: 60, by: .commands) else {
                Issue.record("an unknown command ran")
                return
            }
            guard case .timedOut = client.run(command: 1, seconds: 1, by: .commands) else {
                Issue.record("it was not ended")
                return
            }
            // The cancelled command's late reply must not answer the next one.
            let pipe = try DescriptorPipe()
            pipe.writer.close()
            guard
                case .interrupted = client.run(
                    command: 1, seconds: 60, by: .commands, cancellation: pipe.reader.number)
            else {
                Issue.record("it was not interrupted")
                return
            }
            guard case .ended(let again) = client.run(command: 0, seconds: 60, by: .commands) else {
                Issue.record("nothing works after that")
                return
            }
            #expect(again.status == 3)
        }

        @Test("Only the file in the scope is read for the other process")
        func files() throws {
            let none = try client([])
            #expect(none.file() == nil)
            let client = try client([], file: "/proc/self/comm")
            let (file, bytes) = try #require(client.file())
            #expect(file.errno == 0 && file.isRegular && file.mode & 0o400 != 0 && !bytes.isEmpty)
            let (missing, nothing) = try #require(try self.client([], file: "/nonexistent/file").file())
            #expect(missing.errno == ENOENT && nothing.isEmpty)
        }

        @Test("If the process has ended, no program starts and no call waits")
        func gone() throws {
            let (ours, theirs) = try ProgramClient.pair()
            let client = ProgramClient(
                ours,
                scope: ProgramScope(tunnel: "wg0", commands: [Self.command("true")], file: nil, bindsLowPort: false))
            theirs.close()
            _ = signal(SIGPIPE, SIG_IGN)
            for _ in 0..<2 {
                guard case .notStarted(EPIPE) = client.run(command: 0, seconds: 60, by: .commands) else {
                    Issue.record("something was started")
                    return
                }
            }
            #expect(throws: LinuxNetworkError.self) {
                try client.run(system: "nft", ["list", "tables"], input: [], seconds: 10, outputLimit: 10)
            }
        }

        /// Reads requests on a thread, and answers each with the output that `reply` gives it; nil: not at all.
        private func serve(_ socket: SharedDescriptor, _ reply: @escaping @Sendable (NumberedRequest) -> String?) throws
        {
            _ = try LoopThread(name: "serve") {
                while let (request, _) = ProgramFrame.receive(NumberedRequest.self, from: socket.number) {
                    guard let text = reply(request) else { continue }
                    let answer = NumberedReply(number: request.number, reply: .ended(status: 0))
                    guard ProgramFrame.send(answer, Array(text.utf8), to: socket.number) else { return }
                }
            }
        }

        private static let scope = ProgramScope(
            tunnel: "wg0", commands: [command("true")], file: nil, bindsLowPort: false)

        private func output(_ ending: ProgramClient.Ending) -> String? {
            guard case .ended(let outcome) = ending else { return nil }
            return outcome.output
        }

        /// The process was stopped for longer than a request may take. Its late answer broke the channel for good.
        @Test("A late answer is dropped, and the next request gets its own answer")
        func lateAnswer() throws {
            let (ours, theirs) = try ProgramClient.pair()
            let client = ProgramClient(ours, scope: Self.scope, patience: 0)
            let stop = try DescriptorPipe()
            let reader = stop.reader
            try serve(theirs) { request in
                if request.number == 1 { _ = SystemCall.readAll(reader.number, limit: 1) }
                return "answer \(request.number)"
            }
            guard case .timedOut = client.run(command: 0, seconds: 1, by: .commands) else {
                Issue.record("the first request did not end in time")
                return
            }
            // The process is still stopped: this one waits for no longer than its own time.
            guard case .timedOut = client.run(command: 0, seconds: 1, by: .commands) else {
                Issue.record("the second request did not end in time")
                return
            }
            stop.writer.close()
            #expect(output(client.run(command: 0, seconds: 60, by: .commands)) == "answer 2")
            #expect(output(client.run(command: 0, seconds: 60, by: .commands)) == "answer 3")
        }

        @Test("A process that reads nothing holds no sender, and the rest of a message is sent when it reads again")
        func unreadRequest() throws {
            let (ours, theirs) = try ProgramClient.pair()
            let client = ProgramClient(ours, scope: Self.scope, patience: 0)
            let input = [UInt8](repeating: 7, count: 4 << 20)
            guard case .timedOut = client.run(command: 0, input: input, seconds: 1, by: .commands) else {
                Issue.record("the request did not end in time")
                return
            }
            try serve(theirs) { "answer \($0.number)" }
            #expect(output(client.run(command: 0, input: input, seconds: 60, by: .commands)) == "answer 2")
        }

        @Test("A request that is read after its deadline is not carried out")
        func expiredRequest() throws {
            let mark = try SystemProgram.memoryFile([])
            let scope = ProgramScope(
                tunnel: "wg0", commands: [Self.command("echo ran >> /proc/\(getpid())/fd/\(mark.number)")], file: nil,
                bindsLowPort: false)
            let (ours, theirs) = try ProgramClient.pair()
            let command = ProgramRequest.command(0, seconds: 60, outputLimit: 10)
            let deadlines = [LaneClock.now() - 1, LaneClock.now() + 60 * LaneClock.nanosecondsPerSecond]
            for (index, deadline) in deadlines.enumerated() {
                let request = NumberedRequest(number: UInt64(index + 1), deadline: deadline, request: command)
                #expect(ProgramFrame.send(request, [], to: ours.number))
            }
            let number = dup(theirs.number)
            let thread = try LoopThread(name: "serve") { ProgramServer(scope).serve([number]) }
            let (first, _) = try #require(ProgramFrame.receive(NumberedReply.self, from: ours.number))
            guard case .timedOut = first.reply, first.number == 1 else {
                Issue.record("the late request was answered with \(first)")
                return
            }
            let (second, _) = try #require(ProgramFrame.receive(NumberedReply.self, from: ours.number))
            guard case .ended(0) = second.reply, second.number == 2 else {
                Issue.record("the request in time was answered with \(second)")
                return
            }
            #expect(FileStatus(of: mark.number)?.size == "ran\n".utf8.count, "it ran once")
            ours.close()
            theirs.close()
            thread.join()
        }

        @Test("The requests of a tunnel to the system's programs are permitted for that tunnel")
        func forms() throws {
            func problem(_ program: String, _ arguments: [String], _ input: String = "", tunnel: String = "a=")
                -> String?
            {
                SystemProgramCall(program: program, arguments: arguments, seconds: 10, outputLimit: 65_536)
                    .problem(for: tunnel, input: Array(input.utf8))
            }
            let settings = TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [], includedRoutes: [.allIPv4, .allIPv6],
                allowsLocalNetwork: true, leakPolicy: .everything)
            let guardOf = LeakGuard(
                name: "a=", policy: .everything, mark: 7, settings: settings, tunnelled: [.allIPv4],
                localNetworks: [try IPPrefix("192.168.7.0/24")], routesByMark: true)
            let table = try #require(guardOf.table)
            #expect(problem("nft", table.options, table.script) == nil)
            #expect(problem("nft", ["--stateless", "list", "table", "inet", table.name]) == nil)
            #expect(
                problem("nft", ["-f", "-"], "add table inet \(table.name)\ndelete table inet \(table.name)\n") == nil)
            let interface = InterfaceReference(name: "a=", index: 3)
            for dns in [
                DNSSettings(
                    servers: [try IPAddress("10.0.0.1"), try IPAddress("fd00::1")], searchDomains: ["corp.example."]),
                DNSSettings(servers: [], searchDomains: ["a.example"]),
                DNSSettings(servers: [try IPAddress("10.0.0.1")], matchDomains: ["b.example", ""]),
            ] {
                let plan = ResolverPlan(interface: interface, manager: .resolved, settings: dns)
                for run in plan.resolvectlRuns { #expect(problem("resolvectl", run) == nil, "\(run)") }
                let text = plan.resolvConf
                #expect(problem("resolvconf", ["-a", "a=", "-m", "0", "-x"], text) == nil, "\(text)")
                #expect(problem("resolvconf", ["-a", "tun.a="], text) == nil)
            }
            for run in [["--version"], ["-i"], ["-u"], ["-l", "eth0.dhcp"], ["-d", "a=", "-f"], ["-d", "tun.a="]] {
                #expect(problem("resolvconf", run) == nil, "\(run)")
            }
            for (program, arguments, input) in [
                ("sh", ["-c", "true"], ""), ("nft", ["-f", "/etc/shadow"], ""), ("nft", ["flush", "ruleset"], ""),
                ("nft", ["-f", "-"], "include \"/etc/shadow\"\n"), ("nft", ["list", "table", "inet", table.name], ""),
                ("nft", ["--stateless", "list", "table", "inet", "culvert_wg1"], ""),
                ("nft", ["list", "tables", "x"], ""),
                ("nft", ["list", "tables"], "input"), ("nft", [], ""),
                ("resolvectl", ["dns", "eth0", "10.0.0.1"], ""), ("resolvectl", ["dns", "a=", "--help"], ""),
                ("resolvectl", ["domain", "a=", "$(reboot)"], ""),
                ("resolvectl", ["default-route", "a=", "maybe"], ""),
                ("resolvectl", ["monitor"], ""), ("resolvconf", ["-a", "eth0"], "nameserver 10.0.0.1\n"),
                ("resolvconf", ["-a", "a="], "options debug\n"), ("resolvconf", ["-a", "a="], "search `reboot`\n"),
                ("resolvconf", ["-a", "../x.a="], "nameserver 10.0.0.1\n"), ("resolvconf", ["-l", "../../etc"], ""),
            ] {
                #expect(problem(program, arguments, input) != nil, "\(program) \(arguments) \(input)")
            }
            let long = SystemProgramCall(
                program: "resolvectl", arguments: ["dns", "a=", String(repeating: "1", count: 2000)], seconds: 10,
                outputLimit: 10)
            #expect(long.problem(for: "a=", input: []) != nil)
        }

        @Test(
            "Under the filter no program starts, no process is created or signalled; threads, files and sockets work"
        )
        func filter() throws {
            let results = Mutex<[String]>([])
            let thread = try LoopThread(name: "confined") {
                var found: [String] = []
                func check(_ name: String, _ isGood: Bool) { if !isGood { found.append("\(name): \(errno)") } }
                check("filter", ctunnel_confine_calls(0) == 0)
                check("program", ctunnel_try_program() == EPERM)
                do throws(SystemError) {
                    let setup = SpawnSetup(.ownGroup)
                    _ = try setup.start("/bin/true", arguments: ["true"], environment: [])
                    found.append("a process began")
                } catch {
                    check("process", error.errno == EPERM)
                }
                check("frames", socket(17, 2, 0) < 0 && errno == EAFNOSUPPORT)
                check("signal", kill(getppid(), 0) < 0 && errno == EPERM)
                check("own signal", kill(getpid(), 0) == 0)
                let datagrams = socket(AF_INET, 2, 0)
                check("socket", datagrams >= 0 && close(datagrams) == 0)
                check("file", (try? SmallFile.text("/proc/self/comm")) != nil)
                let inner = try? LoopThread(name: "inner") {}
                check("thread", inner != nil)
                inner?.join()
                results.withLock { $0 = found }
            }
            thread.join()
            #expect(results.withLock { $0 } == [])
        }
    }
#endif
