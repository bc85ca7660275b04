// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import Foundation
import Testing

@testable import culvert

@Suite("Subcommands that are separate programs")
struct ProgramCallTests {
    /// A folder with the program culvert, and scripts in place of the other programs.
    private struct Scene {
        let folder: URL

        init() throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "culvert-programs-\(UUID().uuidString)")
            for name in ["own", "path"] {
                try FileManager.default.createDirectory(
                    at: folder.appending(path: name), withIntermediateDirectories: true)
            }
        }

        func remove() { try? FileManager.default.removeItem(at: folder) }

        func path(_ name: String) -> String { folder.appending(path: name).path }

        func write(_ name: String, _ script: String, mode: String = "755") throws {
            try PlacedProgram.write("#!/bin/sh\n\(script)\n", to: path(name), mode: mode)
        }

        /// The folders that culvert searches if it is in `own`, with `path` in `PATH`.
        func folders(isRoot: Bool) -> ProgramFolders {
            ProgramFolders(executable: path("own/culvert"), path: "relative::\(path("path"))", isRoot: isRoot)
        }
    }

    @Test(
        "A separate program gets all arguments after its name, including --help",
        arguments: [
            (["pin"], []), (["pin", "--help"], ["--help"]), (["pin", "show", "-h"], ["show", "-h"]),
            (["help", "pin"], ["help"]), (["help", "pin", "show"], ["help", "show"]),
            (["pin", "--generate-completion-script", "zsh"], ["--generate-completion-script", "zsh"]),
            (["pin", "check", "--", "-x", ""], ["check", "--", "-x", ""]),
        ])
    func arguments(line: [String], passed: [String]) throws {
        let call = try #require(ProgramCall(line))
        #expect(call.program == "culvert-pin")
        #expect(call.arguments == passed)
    }

    @Test(
        "Other commands are not separate programs",
        arguments: [[], ["help"], ["--help", "pin"], ["demo"], ["status", "pin"], ["pins"], ["help", "status"]])
    func others(line: [String]) {
        #expect(ProgramCall(line) == nil)
    }

    @Test(
        "culvert credential-server names its replacement with status 2, with any arguments",
        arguments: [[], ["run"], ["init", "--endpoint", "vpn.example.com"], ["--help"], ["--version"], ["--", "-x"]])
    func credentialServer(arguments: [String]) {
        let line = ["credential-server"] + arguments
        let captured = CapturedConsole()
        #expect(ProgramCall(line) == nil)
        #expect(Program.run(line, console: captured.console()) == ExitStatus.usage)
        #expect(captured.output.isEmpty)
        for command in ["init HOST --login-tunnel-only --backup-key FILE", "import-credential-server FOLDER"] {
            #expect(captured.error.contains("culvert gateway \(command)\n"), "\(captured.error)")
        }
    }

    @Test("The help of culvert credential-server names its replacement")
    func credentialServerHelp() {
        let captured = CapturedConsole()
        #expect(Program.run(["help", "credential-server"], console: captured.console()) == ExitStatus.success)
        #expect(captured.output.contains("--login-tunnel-only") && captured.output.contains("import-credential-server"))
    }

    @Test("Separate programs are in the list of commands")
    func list() {
        let captured = CapturedConsole()
        #expect(Program.run(["--help"], console: captured.console()) == 0)
        #expect(captured.output.contains("\n  pin  "))
    }

    @Test("Programs are searched next to culvert first, then in PATH")
    func find() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let folders = scene.folders(isRoot: false)
        #expect(folders.find("culvert-pin") == nil)
        try scene.write("path/culvert-pin", "")
        #expect(folders.find("culvert-pin") == scene.path("path/culvert-pin"))
        try scene.write("own/culvert-pin", "")
        #expect(folders.find("culvert-pin") == scene.path("own/culvert-pin"))
    }

    @Test("Programs are not taken from PATH by root, nor by anyone from folders with relative names")
    func root() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.write("path/culvert-pin", "")
        #expect(scene.folders(isRoot: true).find("culvert-pin") == nil)
        let here = ProgramFolders(executable: nil, path: "bin:/bin/../bin", isRoot: false)
        #expect(here.find("sh") == "/bin/../bin/sh")
    }

    @Test("Programs are files that may be run")
    func kinds() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try FileManager.default.createDirectory(
            atPath: scene.path("own/culvert-pin"), withIntermediateDirectories: false)
        #expect(scene.folders(isRoot: true).find("culvert-pin") == nil)
        try scene.write("own/culvert-other", "", mode: "644")
        #expect(scene.folders(isRoot: true).find("culvert-other") == nil)
    }

    @Test("Programs that are missing are named, with the folder that they belong to and how to get them there")
    func missing() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let captured = CapturedConsole()
        let call = try #require(ProgramCall(["pin", "show", "x"]))
        #expect(call.replaceThisProgram(captured.console(), in: scene.folders(isRoot: true)) == ExitStatus.usage)
        for part in [
            "culvert-pin is not installed", scene.path("own"), "root runs none from elsewhere", "make install",
        ] {
            #expect(captured.error.contains(part), "\(part)")
        }
        let ordinary = CapturedConsole()
        #expect(call.replaceThisProgram(ordinary.console(), in: scene.folders(isRoot: false)) == ExitStatus.usage)
        #expect(ordinary.error.contains("nor in PATH"))
    }

    @Test("Programs get the arguments, and their status is that of the command")
    func run() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.write("own/culvert-pin", #"for word in "$0" "$@"; do printf '<%s>' "$word"; done; exit 7"#)
        let (status, output) = try runCulvert(in: scene, "pin", "check", "a b", "", "--help")
        #expect(status == 7)
        #expect(output == "<\(scene.path("own/culvert-pin"))><check><a b><><--help>")
    }

    @Test("Commands end by the signal that ends their programs")
    func signal() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.write("own/culvert-pin", "kill -KILL $$")
        #expect(try runCulvert(in: scene, "pin").status == 128 + 9)
    }

    /// Runs the program in the scene's folder. A signal that ends it is a status over 128, as in shells.
    private func runCulvert(in scene: Scene, _ arguments: String...) throws -> (status: Int32, output: String) {
        let built = try #require(executableFile().map { URL(filePath: $0).deletingLastPathComponent() })
        let program = scene.folder.appending(path: "own/culvert")
        if !FileManager.default.fileExists(atPath: program.path) {
            try PlacedProgram.copy(built.appending(path: "culvert").path, to: program.path)
        }
        let run = try FinishedProgram(program.path, arguments)
        return (run.status, run.output)
    }
}

@Suite("Completion scripts")
struct CompletionScriptTests {
    @Test("A separate program completes its own arguments", arguments: ["bash", "zsh", "fish"])
    func handOver(shell: String) throws {
        for arguments in [["--generate-completion-script", shell], ["--generate-completion-script=" + shell]] {
            let captured = CapturedConsole()
            #expect(Program.run(arguments, console: captured.console()) == 0)
            #expect(captured.output.contains("culvert-pin"))
            #expect(captured.output.contains("leak-policy"))
        }
    }

    @Test("Completions for an unknown shell are refused")
    func unknown() {
        #expect(Program.run(["--generate-completion-script", "tcsh"], console: CapturedConsole().console()) == 2)
    }

    @Test(
        "Bash completes the arguments of a separate program",
        arguments: [
            (["culvert", "pin", "re"], "rehearse"), (["culvert", "pin", "check", "--en"], "--environment"),
            (["culvert", "pi"], "pin"), (["culvert", "key", "gen"], "generate"),
        ])
    func bash(words: [String], completion: String) throws {
        let built = try #require(executableFile().map { URL(filePath: $0).deletingLastPathComponent().path })
        let line = words.joined(separator: " ")
        let script = """
            PATH="\(built):$PATH"
            eval "$(culvert --generate-completion-script bash)"
            COMP_WORDS=(\(line)) COMP_CWORD=\(words.count - 1) COMP_LINE='\(line)' COMP_POINT=\(line.utf8.count)
            _culvert culvert '\(words.last ?? "")' '\(words[words.count - 2])'
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        #expect(try FinishedProgram("/bin/bash", ["-c", script]).output == completion + "\n")
    }
}
