// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import PacketTunnel

/// `culvert reload`: makes a tunnel apply its changed file or profile.
struct ReloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Apply the changed file or profile of a running tunnel without stopping it.",
        discussion: """
            The tunnel's process rereads its file or profile, with the options of its start. Peers that \
            are still in it keep their sessions; new peers are added and others removed; addresses, routes and name servers follow. \
            Hooks take effect at the next start. If the file cannot be used, the tunnel continues unchanged.

            Examples:
              sudo culvert reload wg0
              sudo systemctl reload culvert@wg0

            Exit status: 0, 1, 2, 3, 4; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp("The tunnel, by name or by the file that it was started from.", valueName: "tunnel"),
        completion: RuntimeOptions.completion)
    var tunnel: String

    @OptionGroup var runtime: RuntimeOptions

    func run() throws {
        let (argument, runtime) = (tunnel, runtime.directory)
        let console = Console.standard
        try finish(
            SignalledRun.run {
                do throws(CommandProblem) {
                    let name = try TunnelName.of(argument: argument)
                    let reply = try await Self.reload(name, UnixTunnelChannel(path: runtime.socket(name)))
                    for warning in reply.warnings { console.problem("warning: \(warning)") }
                    console.line("\(name): reloaded")
                    return ExitStatus.success
                } catch {
                    return error.report(to: console)
                }
            })
    }

    static func reload(
        _ name: String, _ channel: UnixTunnelChannel
    ) async throws(CommandProblem) -> ReloadRequest.Reply {
        do throws(MessageError) {
            return try await channel.messages.send(ReloadRequest(), timeout: .seconds(90))
        } catch {
            switch error {
            case .closed: throw CommandProblem(ExitStatus.notFound, "tunnel '\(name)' is not up")
            case .notPermitted(let reason):
                throw CommandProblem(ExitStatus.notPermitted, "\(reason)\n  fix: run as root")
            case .noHandler:
                throw CommandProblem(
                    ExitStatus.notPermitted, "this user may not reload tunnel '\(name)'\n  fix: run as root")
            case .handlerFailed(let failure):
                throw CommandProblem(status(of: failure), "\(name) continues unchanged: \(failure.message)")
            default: throw CommandProblem(ExitStatus.failure, "\(name) was not reloaded: \(error)")
            }
        }
    }

    /// The exit status of a reload that failed in the tunnel's process.
    static func status(of failure: HandlerFailure) -> Int32 {
        let isUsage = TunnelError.Code(rawValue: failure.code).map { ExitStatus.of($0) == ExitStatus.usage } ?? false
        return isUsage ? ExitStatus.usage : ExitStatus.failure
    }
}
