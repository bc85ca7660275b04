// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import FoundationEssentials
import Testing

@testable import culvert

@Suite("The manual's part on pins")
struct PinManualTests {
    @Test("has each command with each of its options")
    func complete() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/man/culvert.1")
        let manual = String(decoding: try Data(contentsOf: file), as: UTF8.self)
        let synopses = manual.split(separator: "\n.Sh DESCRIPTION")[0].split(separator: "\n.Nm\n")
        for command in PinCommand.configuration.subcommands {
            let name = "pin \(command._commandName)"
            let synopsis = try #require(synopses.first { $0.hasPrefix(".Cm \(name)\n") }, "\(name)")
            #expect(manual.contains("\n.It Cm \(name)\n"), "\(name)")
            let options = Culvert.usageString(for: command).split { !$0.isLetter && !$0.isNumber && $0 != "-" }
                .filter { $0.hasPrefix("--") }
            #expect(options.count > 1)
            for option in options {
                // What sign prints is JSON with and without it.
                if option == "--json", command == PinCommand.Sign.self { continue }
                #expect(synopsis.contains("Fl \(option.dropFirst())"), "\(name) \(option)")
            }
            let help = Culvert.helpMessage(for: command)
            #expect(help.contains("Examples:"), "\(name)")
            #expect(help.contains("Exit status: 0"), "\(name)")
        }
    }

    @Test("is in the completions of each shell", arguments: ["bash", "zsh", "fish"])
    func completions(shell: String) throws {
        let captured = CapturedConsole()
        #expect(Program.run(["--generate-completion-script", shell], console: captured.console()) == 0)
        for word in ["rehearse", "keygen", "lowest-version", "issuers"] {
            #expect(captured.output.contains(word), "\(word)")
        }
    }
}
