// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing

@testable import culvert

@Suite("The command line")
struct ProgramTests {
    private func run(_ arguments: String...) -> (status: Int32, CapturedConsole) {
        let captured = CapturedConsole()
        return (Program.run(arguments, console: captured.console()), captured)
    }

    @Test("--version prints the version")
    func version() {
        let (status, captured) = run("--version")
        #expect(status == 0)
        #expect(captured.output == "culvert \(programVersion)\n")
    }

    @Test(
        "The help of every command has examples and goes to standard output",
        arguments: [
            [], ["demo"], ["key"], ["key", "generate"], ["key", "public"], ["key", "preshared"], ["config"],
            ["config", "check"], ["up"], ["down"], ["status"], ["log"], ["profile"], ["profile", "add"],
            ["profile", "list"], ["profile", "show"], ["profile", "remove"], ["cleanup"],
        ])
    func help(command: [String]) {
        let captured = CapturedConsole()
        #expect(Program.run(command + ["--help"], console: captured.console()) == 0)
        #expect(captured.output.contains("Examples:") || captured.output.contains("EXAMPLES:"))
        #expect(captured.output.contains("USAGE: " + (["culvert"] + command).joined(separator: " ")))
        #expect(captured.error.isEmpty)
    }

    @Test("A command line of `up` is parsed by itself; its mistakes and help are left to the whole program")
    func up() {
        let command = UpCommand.parsed(from: ["up", "wg0", "--timeout", "5", "-v", "--allow-user", "ann"])
        #expect(command?.tunnel == "wg0" && command?.timeout == 5 && command?.verbose == true)
        #expect(command?.users.permittedUsers == ["ann"])
        for line in [
            [], ["down", "wg0"], ["up"], ["up", "--help"], ["up", "wg0", "--timeout", "0"], ["up", "--version"],
            ["up", "wg0", "wg1"], ["--version"], ["help", "up"],
        ] {
            #expect(UpCommand.parsed(from: line)?.tunnel == nil, "\(line)")
        }
        let captured = CapturedConsole()
        #expect(Program.run(["up", "wg0", "--timeout", "0"], console: captured.console()) == 2)
        #expect(captured.error.contains("--timeout is 0"))
    }

    @Test("Completion scripts are made for each shell", arguments: ["bash", "zsh", "fish"])
    func completion(shell: String) {
        let (status, captured) = run("--generate-completion-script", shell)
        #expect(status == 0)
        #expect(captured.output.contains("culvert"))
        #expect(captured.output.contains("preshared"))
        #expect(captured.output.contains("leak-policy"))
    }

    @Test(
        "A wrong name gives status 2 and the nearest right one",
        arguments: [
            (["dmo"], "Did you mean 'culvert demo'?"), (["keys"], "Did you mean 'culvert key'?"),
            (["key", "genrate"], "Did you mean 'culvert key generate'?"),
            (["config", "chekc", "x"], "Did you mean 'culvert config check'?"),
        ])
    func suggestion(arguments: [String], words: String) {
        let captured = CapturedConsole()
        #expect(Program.run(arguments, console: captured.console()) == 2)
        #expect(captured.error.contains(words))
        #expect(captured.output.isEmpty)
    }

    @Test("Wrong options and values give status 2")
    func usage() {
        #expect(run("demo", "--secnds", "3").status == 2)
        #expect(run("demo", "--seconds", "0").status == 2)
        #expect(run("demo", "--seconds", "many").status == 2)
        #expect(run("demo", "--login", "--tun").status == 2)
        #expect(run("config", "check").status == 2)
        #expect(run("up").status == 2)
        #expect(run("down").status == 2)
        #expect(run("down", "wg0", "--all").status == 2)
        #expect(run("status", "--interval", "0").status == 2)
        #expect(run("log", "--level", "loud").status == 2)
        #expect(run("log", "--follow", "--export", "x").status == 2)
        #expect(run("demo", "--secnds", "3").1.error.contains("Did you mean '--seconds'?"))
    }

    @Test(
        "A key as an argument is refused and not repeated",
        arguments: [["key", "public"], ["key"], ["key", "generate"]])
    func keyArgument(command: [String]) {
        let key = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
        let captured = CapturedConsole()
        #expect(Program.run(command + [key], console: captured.console()) == 2)
        #expect(!captured.error.contains("dwdtCnMY"))
        #expect(captured.output.isEmpty)
        if command == ["key", "public"] { #expect(captured.error.contains("use standard input")) }
    }
}
