// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import FoundationEssentials
import Testing

@testable import culvert_pin

@Suite("The manual of culvert-pin")
struct PinManualTests {
    @Test("The manual of culvert-pin contains each command with each of its options")
    func complete() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/man/culvert-pin.1")
        let manual = String(decoding: try Data(contentsOf: file), as: UTF8.self)
        let synopses = manual.split(separator: "\n.Sh DESCRIPTION")[0].split(separator: "\n.Nm\n")
        for command in PinCommand.configuration.subcommands {
            let name = command._commandName
            let synopsis = try #require(synopses.first { $0.hasPrefix(".Cm \(name)\n") }, "\(name)")
            #expect(manual.contains("\n.It Cm \(name)\n"), "\(name)")
            let options = PinCommand.usageString(for: command).split { !$0.isLetter && !$0.isNumber && $0 != "-" }
                .filter { $0.hasPrefix("--") }
            #expect(options.count > 1)
            for option in options {
                // The output of sign is JSON with and without it.
                if option == "--json", command == PinCommand.Sign.self { continue }
                #expect(synopsis.contains("Fl \(option.dropFirst())"), "\(name) \(option)")
            }
            let help = PinCommand.helpMessage(for: command)
            #expect(help.contains("Examples:"), "\(name)")
            #expect(help.contains("Exit status: 0"), "\(name)")
        }
    }

    @Test("The completions of each shell contain the commands and options", arguments: ["bash", "zsh", "fish"])
    func completions(shell: String) async throws {
        let captured = CapturedConsole()
        #expect(await PinCommand.run(["--generate-completion-script", shell], console: captured.console()) == 0)
        for word in ["rehearse", "keygen", "lowest-version", "issuers"] {
            #expect(captured.output.contains(word), "\(word)")
        }
    }
}
