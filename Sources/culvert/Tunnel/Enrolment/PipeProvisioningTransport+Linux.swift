// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import Provisioning
    import TunnelIO
    import TunnelSystem

    /// Sends each request through a process of `culvert-enroll transport`, since this program links no TLS.
    ///
    /// The process gets one line on its standard input, and writes one. It is killed when its time is over or the task is cancelled.
    struct PipeProvisioningTransport: ProvisioningTransport {
        static let program = "culvert-enroll"

        var logger: Logger
        /// Starts `culvert-enroll` for this process.
        var programs: ProgramClient
        /// The time beyond the request's timeout in which the process can start, and report that the request timed out.
        var grace: Duration = .seconds(3)

        func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
            guard let index = programs.scope.commands.firstIndex(where: { $0.arguments == Self.arguments }) else {
                throw .unsupported(
                    "\(Self.program) is not installed: \(ProgramFolders.standard); 'make build' and 'sudo make install' put it next to culvert"
                )
            }
            let path = programs.scope.commands[index].program
            guard let line = PipeMessages.line(request) else {
                throw .unsupported("the request is longer than \(PipeMessages.requestLimit) bytes")
            }
            let limit = request.replyLimit / 3 * 4 + PipeMessages.replyOverhead
            let (patience, programs) = (request.timeout + grace, programs)
            let answer: Result<[UInt8], ProvisioningTransportError>
            do throws(TunnelError) {
                answer = try await BlockingWork.run("culvert-request") {
                    Self.exchange(programs, index, line, limit: limit, patience: patience, $0)
                }
            } catch {
                throw .unsupported(error.message)
            }
            guard let outcome = PipeMessages.outcome(try answer.get()) else {
                throw .unsupported("\(path) does not answer as expected: is it of another version?")
            }
            for note in outcome.notes { logger.notice("\(note)") }
            return try outcome.result.get()
        }

        private static let arguments = [program, "transport"]

        /// The command that runs it; `nil` if it is not installed.
        static func command(_ folders: ProgramFolders = .standard) -> ProgramScope.Command? {
            let environment = ProcessEnvironment.assignments(["PATH", "LANG", "TZ"])
            return folders.find(program).map {
                ProgramScope.Command($0, arguments: arguments, environment: environment)
            }
        }

        private static func exchange(
            _ programs: ProgramClient, _ index: Int, _ line: [UInt8], limit: Int, patience: Duration,
            _ cancellation: Int32
        ) -> Result<[UInt8], ProvisioningTransportError> {
            let path = programs.scope.commands[index].program
            let seconds = Int((patience / .seconds(1)).rounded(.up))
            let ending = programs.run(
                command: index, input: line, seconds: seconds, outputLimit: limit, by: .requests,
                cancellation: cancellation)
            switch ending {
            case .ended(let outcome):
                guard outcome.status == 0 else {
                    return .failure(.unsupported("\(path) ended with status \(outcome.status): \(outcome.lastLine)"))
                }
                return .success(Array(outcome.lastLine.utf8))
            case .interrupted: return .failure(.unreachable("the request was cancelled"))
            case .timedOut: return .failure(.unreachable("no answer within \(patience)"))
            case .notStarted(let errno):
                return .failure(.unsupported("\(path) cannot be run: \(SystemError.words(errno))"))
            }
        }
    }
#endif
