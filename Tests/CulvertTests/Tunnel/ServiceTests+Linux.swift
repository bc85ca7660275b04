// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CommandLineTesting
    import Foundation
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import PacketTunnelTesting
    import Testing
    import TunnelSystem

    @testable import culvert

    @Suite("The parts of a tunnel's process on Linux", .timeLimit(.minutes(2)))
    struct LinuxServiceTests {
        @Test("Events cross a pipe in any pieces")
        func events() throws {
            let sent: [StartEvent] = [
                .step("a\nb"), .warning("c"), .ready(process: 7, .listening),
                .failed(TunnelError(.serverUnreachable, "no answer", fix: "wait")),
            ]
            let bytes = try sent.flatMap { event -> [UInt8] in Array(try JSONEncoder().encode(event)) + [10] }
            for size in [1, 7, bytes.count] {
                var reader = StartEvents()
                var received: [StartEvent] = []
                for start in stride(from: 0, to: bytes.count, by: size) {
                    received += reader.parse(bytes[start..<min(start + size, bytes.count)])
                }
                #expect(received == sent)
            }
            var reader = StartEvents()
            #expect(reader.parse(Array("nonsense\n".utf8)).isEmpty)
        }

        @Test("The report of a start closes no other descriptor of its process, and no program inherits it")
        func reportDescriptor() throws {
            let pipe = try DescriptorPipe()
            let number = fcntl(pipe.writer.number, F_DUPFD, 20)
            try #require(number >= 0)
            defer { close(number) }
            let higher = fcntl(pipe.writer.number, F_DUPFD_CLOEXEC, number + 1)
            try #require(higher > number)
            defer { close(higher) }
            StartReport(descriptor: number).send(.step("a"))
            #expect(fcntl(higher, F_GETFD) >= 0)
            #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0)
            var reader = StartEvents()
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = unsafe read(pipe.reader.number, &bytes, bytes.count)
            #expect(reader.parse(bytes.prefix(max(count, 0))) == [.step("a")])
        }

        @Test("The processes of a tunnel use absolute paths, because they change their folder")
        func absolutePaths() throws {
            let options = ["up", "wg0", "--directory", "profiles", "--runtime-directory", "run"]
            let command = try #require(UpCommand.parsed(from: options)).withAbsolutePaths
            let folder = StandardStream.workingDirectory
            #expect(command.tunnel == "wg0", "a name is not a path")
            #expect(command.profiles.path == folder + "/profiles")
            #expect(command.runtime.directory.path == folder + "/run")
            #expect(command.withAbsolutePaths.runtime.directory.path == folder + "/run")
        }

        @Test("A service manager is notified, at a path and at an abstract name", arguments: [false, true])
        func notice(_ isAbstract: Bool) throws {
            let folder = try ScratchFolder()
            let name = isAbstract ? "@\(folder.path)" : folder.path + "/notify"
            let socket = socket(AF_UNIX, 2 | 0o4000, 0)
            try #require(socket >= 0)
            defer { close(socket) }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            var path = Array(name.utf8)
            if isAbstract { path[0] = 0 }
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
            let length = socklen_t(2 + path.count + (isAbstract ? 0 : 1))
            let bound = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(socket, $0, length) }
            }
            try #require(bound == 0)
            let notice = ServiceManagerNotice { $0 == "NOTIFY_SOCKET" ? name : nil }
            notice.ready("connected")
            notice.stopping()
            func next() -> String {
                var bytes = [UInt8](repeating: 0, count: 256)
                let count = unsafe recv(socket, &bytes, bytes.count, 0)
                return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
            }
            #expect(next() == "READY=1\nSTATUS=connected\n")
            #expect(next() == "STOPPING=1\n")
            #expect(ServiceManagerNotice { _ in nil }.socket == nil)
            #expect(ServiceManagerNotice { _ in "relative" }.socket == nil)
        }

        private func result(_ command: String) async -> TunnelError? {
            _ = signal(SIGPIPE, SIG_IGN)
            let scope = ProgramScope(
                tunnel: "t", commands: [HookRunner.command(command)], file: nil, bindsLowPort: false)
            do throws(SystemError) {
                let runner = HookRunner(
                    logger: Logger(label: "t") { _ in SwiftLogNoOpLogHandler() },
                    programs: try ProgramClient(servedHere: scope))
                do throws(TunnelError) {
                    try await runner.run(command)
                    return nil
                } catch {
                    return error
                }
            } catch {
                return TunnelError(.hostFailed, "\(error)")
            }
        }

        @Test("Commands run in bash, and processes that they leave running do not delay them")
        func hookCommands() async throws {
            let folder = try ScratchFolder()
            let file = folder.path + "/out"
            #expect(await result("echo one | tee \(file) >/dev/null && [[ -f \(file) ]]") == nil)
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "one\n")
            let error = try #require(await result("echo reason; exit 7"))
            #expect(error.code == .hostFailed)
            #expect(error.message == "the file's command 'echo …' ended with status 7: reason")
            let began = ContinuousClock.now
            #expect(await result("sleep 50 & echo $! > \(file)") == nil)
            #expect(ContinuousClock.now - began < .seconds(40))
            let process = try #require(Int32(String(contentsOfFile: file, encoding: .utf8).filter(\.isNumber)))
            kill(process, SIGKILL)
        }

        @Test("A command that writes without pause is not delayed more than others by processes that it leaves")
        func writingInBackground() async throws {
            let began = ContinuousClock.now
            #expect(await result("yes & true") == nil)
            #expect(ContinuousClock.now - began < .seconds(40))
        }

        @Test(
            "A command ends with the task that waits for it, together with its child processes",
            arguments: [
                "sleep 500 & echo up >&9; wait",
                "echo up >&9; yes",
                "sh -c 'trap \"\" TERM; echo up >&9; exec sleep 500' & wait",
                "sh -c 'trap \"\" TERM; echo up >&9; exec sleep 500 >/dev/null 2>&1' & wait",
                "sh -c 'trap \"\" TERM; echo up >&9; exec yes' & wait",
            ])
        func interruptedCommand(_ command: String) async throws {
            let folder = try ScratchFolder()
            let file = folder.path + "/pipe"
            #expect(unsafe mkfifo(file, 0o600) == 0)
            // Non-blocking: the pipe has no writer yet.
            let reader = unsafe open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
            try #require(reader >= 0)
            defer { close(reader) }
            let task = Task { await result("exec 9> \(file); \(command)") }
            #expect(await nextRead(reader) == "up\n")
            task.cancel()
            #expect(await task.value == TunnelError(.stopped, "the file's command 'exec …' was interrupted"))
            // Each process of the command has the pipe open for as long as it lives.
            #expect(await nextRead(reader)?.isEmpty == true)
        }

        /// Reads from a descriptor when it has data or its writers are closed; `nil` after a minute.
        private func nextRead(_ descriptor: Int32) async -> String? {
            await withCheckedContinuation { continuation in
                // On a separate thread, since tasks of the test run meanwhile.
                Thread.detachNewThread {
                    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                    guard unsafe poll(&request, 1, 60_000) > 0 else { return continuation.resume(returning: nil) }
                    var bytes = [UInt8](repeating: 0, count: 64)
                    let count = unsafe read(descriptor, &bytes, bytes.count)
                    continuation.resume(returning: String(decoding: bytes.prefix(max(0, count)), as: UTF8.self))
                }
            }
        }

        private func launch(
            _ script: String, limit: Duration = .seconds(60), tell: @escaping @Sendable (StartEvent) -> Void = { _ in }
        ) async -> (TunnelError?, [StartEvent]) {
            let events = AsyncStream.makeStream(of: StartEvent.self)
            let launcher = ServiceLauncher(
                program: "/bin/sh", arguments: ["sh", "-c", script], limit: limit
            ) { event in
                events.continuation.yield(event)
                tell(event)
            }
            var failure: TunnelError?
            do throws(TunnelError) { try await launcher.launch() } catch { failure = error }
            events.continuation.finish()
            var told: [StartEvent] = []
            for await event in events.stream { told.append(event) }
            return (failure, told)
        }

        @Test("A process that says it is up is left to itself; one that ends is an error, with its reason")
        func launcher() async throws {
            let folder = try ScratchFolder()
            let ready = #"echo '{"step":{"_0":"x"}}' >&3; echo '{"ready":{"process":5,"_1":"connected"}}' >&3"#
            // It has a separate session, so it survives the end of the terminal.
            let session = "read -r line < /proc/$$/stat; set -- ${line##*) }; echo $4 $$ > \(folder.path)/ids; "
            let (none, events) = await launch(session + ready)
            let numbers = try String(contentsOfFile: folder.path + "/ids", encoding: .utf8).split(separator: " ")
            #expect(numbers.count == 2 && numbers[0] == numbers[1].dropLast())
            #expect(none == nil)
            #expect(events == [.step("x"), .ready(process: 5, .connected)])
            let (ended, _) = await launch("exit 3")
            #expect(ended?.message == "the tunnel's process ended with status 3")
            let (killed, _) = await launch("kill -9 $$")
            #expect(killed?.message == "the tunnel's process ended with signal 9")
            let error = TunnelError(.serverUnreachable, "no answer")
            let line = String(decoding: try JSONEncoder().encode(StartEvent.failed(error)), as: UTF8.self)
            let (failed, _) = await launch("echo '\(line)' >&3; exit 6")
            #expect(failed == error)
        }

        @Test("A launch that is cancelled, or takes too long, ends the process before it returns")
        func launcherEnds() async throws {
            // The process tells who it is.
            let script = #"echo "{\"step\":{\"_0\":\"$$\"}}" >&3; exec sleep 1000"#
            func isAlive(_ event: StartEvent) throws -> Bool {
                guard case .step(let text) = event else { return false }
                return kill(try #require(Int32(text)), 0) == 0
            }
            let (heard, changes) = (Eavesdropper<StartEvent>(), Changes())
            let task = Task {
                await launch(script) { event in
                    heard.observe(event)
                    changes.notify()
                }.0
            }
            #expect(await changes.wait { heard.count > 0 })
            let process = try #require(heard.messages.first)
            #expect(try isAlive(process))
            task.cancel()
            #expect(await task.value != nil)
            #expect(try !isAlive(process))
            let (error, told) = await launch(script, limit: .milliseconds(200))
            #expect(error != nil)
            #expect(try !told.contains { try isAlive($0) })
        }

        private static var unitFile: String {
            URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../packaging/systemd/culvert@.service").standardized.path
        }

        @Test(
            "The unit does not retry a refused login, nor a session that the server ended, and retries a server that is away"
        )
        func unretried() throws {
            let text = try String(contentsOfFile: Self.unitFile, encoding: .utf8)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("RestartPreventExitStatus=") })
            let statuses = line.split(separator: "=")[1].split(separator: " ").compactMap { Int32($0) }
            for code in [TunnelError.Code.authenticationFailed, .sessionTerminated, .configurationInvalid] {
                #expect(statuses.contains(ExitStatus.of(code, isLogin: true)), "\(code)")
            }
            for code in [TunnelError.Code.serverUnreachable, .networkUnavailable, .providerFailed] {
                #expect(!statuses.contains(ExitStatus.of(code, isLogin: true)), "\(code)")
            }
        }

        private static let verifier = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
            .first { FileManager.default.isExecutableFile(atPath: $0) }

        @Test("systemd finds nothing wrong with the unit", .enabled(if: verifier != nil, "needs systemd-analyze"))
        func unit() throws {
            let folder = try ScratchFolder()
            // The program need not be installed here.
            let text = try String(contentsOfFile: Self.unitFile, encoding: .utf8)
            #expect(text.contains("ExecStart=/usr/local/bin/culvert up --foreground --no-wait %i\n"))
            let unit = try folder.write(
                text.replacing("/usr/local/bin/culvert", with: "/bin/true"), to: "culvert@.service", mode: 0o644)
            let run = try FinishedProgram(
                try #require(Self.verifier), ["verify", "--man=no", unit], reading: 2)
            #expect(run.status == 0, "\(run.output)")
            #expect(!run.output.contains("culvert@.service"), "\(run.output)")
        }
    }
#endif
