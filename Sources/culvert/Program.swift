// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import TunnelIO

@main
enum Program {
    static func main() {
        ProgramStart.prepare()
        DefaultExecutor.replace()
        exit(run(Array(CommandLine.arguments.dropFirst()), console: .standard))
    }

    /// Parses and runs one command line.
    /// - Returns: the exit status.
    static func run(_ arguments: [String], console: Console) -> Int32 {
        if let status = TunnelUp.servePrograms(arguments) { return status }
        if let command = UpCommand.parsed(from: arguments) { return TunnelUp.run(command, console: console) }
        if let call = ProgramCall(arguments) { return call.replaceThisProgram(console) }
        if let problem = CredentialServerCommand.problem(arguments) { return problem.report(to: console) }
        if let script = CompletionScript.requested(by: arguments) {
            console.line(script)
            return ExitStatus.success
        }
        do {
            var command = try Culvert.parseAsRoot(arguments)
            try command.run()
            return ExitStatus.success
        } catch {
            return Culvert.end(arguments, with: error, console: console)
        }
    }
}
