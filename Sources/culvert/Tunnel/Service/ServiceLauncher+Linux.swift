// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux
    import Synchronization
    import TunnelIO
    import TunnelSystem

    /// Starts a tunnel's process in the background, in a separate session, and waits until its tunnel is up.
    struct ServiceLauncher: Sendable {
        /// The program to start; by default this one.
        var program = SpawnPlatform.ownProgram
        /// The arguments of the program, with its name first.
        var arguments: [String]
        /// Additional variables of the environment.
        var environment: [String] = []
        /// The standard input of the program.
        var input: [UInt8] = []
        /// The supervisor that starts programs for the service. It is closed here once the service has it.
        var programs: SupervisorChannels?
        /// The limit for a service that does not keep its own deadline.
        var limit: Duration
        /// Called with each event of the service's start.
        var tell: @Sendable (StartEvent) -> Void

        /// The number of the report's descriptor in the service.
        static let reportNumber: Int32 = 3
        /// The numbers of ``programs`` in the service.
        private static let controlNumber: Int32 = 4
        private static let scopeNumber: Int32 = 5

        /// The supervisor that this process, a service, was given.
        static var passedPrograms: SupervisorChannels {
            SupervisorChannels(control: controlNumber, scope: scopeNumber)
        }

        /// Starts the service and waits until its tunnel is up. If the task is cancelled or ``limit`` has passed, ends
        /// the service and waits for its end.
        /// - Throws: the reason that the tunnel is not up. There is no process then.
        func launch() async throws(TunnelError) {
            let (child, report) = try spawn()
            let stream = AsyncStream.makeStream(of: Message.self)
            do throws(TunnelIOError) {
                _ = try LoopThread(name: "culvert-start") { Self.read(report, child, stream.continuation) }
            } catch {
                kill(child, SIGTERM)
                throw TunnelError(.hostFailed, "no thread: \(error)")
            }
            let (limit, tell) = (limit, tell)
            // In a separate task: cancellation ends the service, not the wait for it.
            let outcome = Task { await Self.follow(stream.stream, tell) }
            let timer = Task {
                guard (try? await Task.sleep(for: limit)) != nil else { return }
                kill(child, SIGTERM)
                // Longer than it may take to stop and to undo everything.
                guard (try? await Task.sleep(for: .seconds(60))) != nil else { return }
                kill(child, SIGKILL)
            }
            let error = await withTaskCancellationHandler {
                await outcome.value
            } onCancel: {
                kill(child, SIGTERM)
            }
            timer.cancel()
            if let error { throw error }
        }

        private enum Message: Sendable {
            case event(StartEvent)
            case ended(status: Int32)
        }

        private static func follow(
            _ messages: AsyncStream<Message>, _ tell: @Sendable (StartEvent) -> Void
        ) async -> TunnelError? {
            var failure: TunnelError?
            for await message in messages {
                switch message {
                case .event(.ready(let process, let readiness)):
                    tell(.ready(process: process, readiness))
                    return nil
                case .event(.failed(let error)): failure = error
                case .event(let event): tell(event)
                case .ended(let status):
                    let end = status & 0x7f == 0 ? "status \((status >> 8) & 0xff)" : "signal \(status & 0x7f)"
                    return failure
                        ?? TunnelError(.hostFailed, "the tunnel's process ended with \(end)", fix: "see its log")
                }
            }
            return failure ?? TunnelError(.hostFailed, "the tunnel's process ended")
        }

        /// Reads the service's events; then waits for its end, and reports it only if the tunnel never came up.
        private static func read(
            _ report: SharedDescriptor, _ child: pid_t, _ messages: AsyncStream<Message>.Continuation
        ) {
            var events = StartEvents()
            var chunk = [UInt8](repeating: 0, count: 4096)
            var isUp = false
            while !isUp {
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(report.number, into: $0) }
                guard count > 0 else { break }
                for event in events.parse(chunk[..<count]) {
                    if case .ready = event { isUp = true }
                    messages.yield(.event(event))
                }
            }
            report.close()
            if isUp { messages.finish() }
            // Waits for the service's end, since this process may run longer than the service.
            var status: Int32 = 0
            _ = SystemCall.retry { unsafe waitpid(child, &status, 0) }
            messages.yield(.ended(status: status))
            messages.finish()
        }

        private func spawn() throws(TunnelError) -> (child: pid_t, report: SharedDescriptor) {
            let setup = SpawnSetup(.ownSession)
            for number in [1, 2] as [Int32] { setup.openNull(number, forWriting: true) }
            let kept = ProcessEnvironment.assignments(["PATH", "HOME", "LANG", "TZ", RuntimeDirectory.variable])
            do throws(SystemError) {
                let file = try SystemProgram.memoryFile(input)
                setup.pass(file.number, as: 0)
                let pipe = try DescriptorPipe()
                setup.pass(pipe.writer.number, as: Self.reportNumber)
                if let programs {
                    setup.pass(programs.control.number, as: Self.controlNumber)
                    setup.pass(programs.scope.number, as: Self.scopeNumber)
                }
                defer { programs?.close() }
                let child = try setup.start(program, arguments: arguments, environment: kept + environment)
                withExtendedLifetime(file) {}
                pipe.writer.close()
                return (child, pipe.reader)
            } catch {
                throw TunnelError(.hostFailed, "cannot start the tunnel's process: \(error)")
            }
        }
    }
#endif
