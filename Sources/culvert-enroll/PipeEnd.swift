// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Logging
import PinnedProvisioning
import Provisioning
import Synchronization
import TunnelSystem

/// The end of the pipe that uses TLS. It reads one request from standard input and writes one reply to standard output.
enum PipeEnd {
    static func run() async -> Int32 {
        guard let line = SystemCall.readAll(0, limit: PipeMessages.requestLimit + 1),
            let request = PipeMessages.request(line)
        else {
            StandardStream.write("only 'culvert up' runs this command, with the request on standard input\n", to: 2)
            return ExitStatus.usage
        }
        let notes = Notes()
        let transport = PinnedProvisioningTransport(logger: notes.logger)
        let result: Result<ProvisioningReply, ProvisioningTransportError>
        do throws(ProvisioningTransportError) {
            result = .success(try await transport.send(request))
        } catch {
            result = .failure(error)
        }
        let outcome = PipeMessages.Outcome(result, notes: notes.lines.withLock { $0 })
        return SystemCall.writeAll(1, PipeMessages.line(outcome)) ? ExitStatus.success : ExitStatus.failure
    }

    /// The log messages to send to the other end.
    private final class Notes: Sendable {
        let lines = Mutex<[String]>([])

        var logger: Logger { Logger(label: "transport") { [self] _ in Handler(notes: self) } }

        private struct Handler: LogHandler {
            let notes: Notes
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.notice

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { metadata[key] }
                set { metadata[key] = newValue }
            }

            func log(event: LogEvent) {
                notes.lines.withLock { if $0.count < 16 { $0.append(String("\(event.message)".prefix(500))) } }
            }
        }
    }
}
