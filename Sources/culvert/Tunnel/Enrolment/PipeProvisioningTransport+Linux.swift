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

    /// Sends requests by `culvert-enroll transport`, a process for each: this program links no TLS.
    ///
    /// The process gets one line on its standard input, and writes one. It is killed when its time is over or the task is cancelled.
    struct PipeProvisioningTransport: ProvisioningTransport {
        static let program = "culvert-enroll"

        var logger: Logger
        var folders = ProgramFolders.standard
        /// Time for the process to begin, and to say that the request's time was up.
        var grace: Duration = .seconds(3)

        func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
            guard let path = folders.find(Self.program) else {
                throw .unsupported(
                    "\(Self.program) is not installed: \(folders); 'make build' and 'sudo make install' put it beside culvert"
                )
            }
            guard let line = PipeMessages.line(request) else {
                throw .unsupported("it is longer than \(PipeMessages.requestLimit) bytes")
            }
            let limit = request.replyLimit / 3 * 4 + PipeMessages.replyOverhead
            let patience = request.timeout + grace
            let answer: Result<[UInt8], ProvisioningTransportError>
            do throws(TunnelError) {
                answer = try await BlockingWork.run("culvert-request") {
                    Self.exchange(path, line, limit: limit, patience: patience, $0)
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

        private static func exchange(
            _ path: String, _ line: [UInt8], limit: Int, patience: Duration, _ cancellation: Int32
        ) -> Result<[UInt8], ProvisioningTransportError> {
            do throws(SystemError) {
                let input = try DescriptorPipe()
                let environment = ["PATH", "LANG", "TZ"].compactMap { name in
                    StandardStream.environment(name).map { "\(name)=\($0)" }
                }
                let child = try ChildProcess(
                    path, arguments: [program, "transport"], environment: environment, input: input.reader.number,
                    outputLimit: limit)
                input.reader.close()
                _ = SystemCall.writeAll(input.writer.number, line)
                input.writer.close()
                let nanoseconds = Int64((patience / .seconds(1)) * 1e9)
                switch child.wait(until: LaneClock.now() + nanoseconds, interruption: cancellation) {
                case .ended(let outcome):
                    guard outcome.status == 0 else {
                        return .failure(
                            .unsupported("\(path) ended with status \(outcome.status): \(outcome.lastLine)"))
                    }
                    return .success(Array(outcome.lastLine.utf8))
                case .interrupted:
                    child.destroy()
                    return .failure(.unreachable("the request was given up"))
                case .timedOut:
                    child.destroy()
                    return .failure(.unreachable("no answer within \(patience)"))
                }
            } catch {
                return .failure(.unsupported("\(path) cannot be run: \(error)"))
            }
        }
    }
#endif
