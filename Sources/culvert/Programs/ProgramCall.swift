// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import TunnelSystem

/// A command line that another program runs in place of this one.
struct ProgramCall: Equatable {
    /// The name of a ``ProgramCommand``.
    var command: String
    var program: String
    var arguments: [String]

    /// `nil` if this program runs the command itself.
    init?(_ line: [String]) {
        let help = line.first == "help" ? line.prefix(1) : []
        let words = line.dropFirst(help.count)
        let commands = Culvert.configuration.subcommands.compactMap { $0 as? any ProgramCommand.Type }
        guard let found = commands.first(where: { $0._commandName == words.first }) else { return nil }
        command = found._commandName
        program = found.program
        arguments = Array(help + words.dropFirst())
    }

    /// Replaces this process with the program, which then has its terminal, signals and exit status. Returns only if
    /// the program cannot be run.
    func replaceThisProgram(_ console: Console, in folders: ProgramFolders = .standard) -> Int32 {
        guard let path = folders.find(program) else {
            return problem("\(program) is not installed: \(folders.description)").report(to: console)
        }
        ProgramStart.restoreSignals()
        let pointers = unsafe ([program] + arguments).map { unsafe strdup($0) } + [nil]
        defer { unsafe pointers.forEach { unsafe free($0) } }
        unsafe _ = execv(path, pointers)
        return problem("\(path) cannot be run: \(SystemError.words(errno))").report(to: console)
    }

    private func problem(_ reason: String) -> CommandProblem {
        CommandProblem(
            ExitStatus.usage,
            """
            'culvert \(command)' is a separate program, and \(reason)
              fix: 'make build' and 'sudo make install' put \(program) next to culvert; in a clone, \
            'swift build --product \(program)' does
            """)
    }
}

/// The folders of the programs that belong to this one.
struct ProgramFolders: CustomStringConvertible {
    /// The folder of this program's file.
    private var own: String?
    /// The folders of `PATH`; `nil` for root, who runs programs from the folder of this one only.
    private var path: [String]?

    static var standard: ProgramFolders {
        ProgramFolders(
            executable: executableFile(), path: StandardStream.environment("PATH"),
            isRoot: getuid() == 0 || geteuid() == 0)
    }

    /// - Parameters:
    ///   - executable: this program's file.
    ///   - path: folders with colons between them. Relative folders are ignored.
    init(executable: String?, path: String?, isRoot: Bool) {
        own = executable.flatMap { file in file.lastIndex(of: "/").map { String(file[..<$0]) } }
        guard !isRoot else { return }
        self.path = (path ?? "").split(separator: ":").filter { $0.hasPrefix("/") }.map(String.init)
    }

    /// The path of a program; `nil` if there is no executable with this name.
    func find(_ name: String) -> String? {
        ([own].compactMap(\.self) + (path ?? [])).map { "\($0)/\(name)" }.first { file in
            unsafe FileStatus(of: file)?.kind == .file && access(file, X_OK) == 0
        }
    }

    var description: String {
        let beside = own.map { "it is not in \($0)/" } ?? "the folder of this program is unknown"
        return beside + (path == nil ? ", and root runs none from elsewhere" : ", nor in PATH")
    }
}
