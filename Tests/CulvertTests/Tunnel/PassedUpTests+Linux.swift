// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import ArgumentParser
    import Testing

    @testable import culvert

    @Suite("The options of culvert up that a process passes to another")
    struct PassedUpTests {
        @Test(
            "Parsed options of `up` are the same in another process",
            arguments: [
                ["--no-dns"], ["--"], ["--memory", "client"],
                [
                    "--interface", "wg1", "--leak-policy", "everything", "--no-local-network", "--allow-network",
                    "192.168.7.0/24", "--memory", "extension", "--aead", "boringssl", "--no-dns", "--ping", "10.0.0.1",
                    "--connectivity-interval", "2.5", "--max-connection-attempts", "4", "--ping-interval", "0.5",
                    "--end-when-dead", "at-once", "--no-monitor", "--timeout", "7", "--no-wait", "--foreground", "-v",
                    "--allow-user", "ann", "--allow-user", "0", "--report-descriptor", "3", "--run-programs", "here",
                    "--directory", "profiles", "--runtime-directory", "run",
                ],
            ])
        func passedUp(_ options: [String]) throws {
            let arguments = ["up", "wg0"] + options
            let command = try #require(UpCommand.parsed(from: arguments))
            let text = PassedUp(command).text(for: arguments)
            let passed = try #require(PassedUp(text: text))
            #expect(passed == PassedUp(command))
            // The description has every option, even one that is not passed.
            #expect("\(passed.command)" == "\(command)")
            #expect(PassedUp(text: Array(text.dropLast())) == nil && PassedUp(text: []) == nil)
            let other = String(decoding: text, as: UTF8.self).replacing("everything", with: "nothing")
            #expect(options.count < 3 || PassedUp(text: Array(other.utf8)) == nil, "an unknown policy is not left out")
        }

        @Test("Without options, `up` has the parser's values without the parser")
        func plain() throws {
            for arguments in [
                ["wg0"], ["./wg0.conf"], ["up"], ["wg0", "--foreground", "--report-descriptor", "3"],
                ["wg0", "--run-programs", "root"],
            ] {
                let plain = try #require(PassedUp(plain: ["up"] + arguments))
                #expect("\(plain.command)" == "\(try UpCommand.parse(arguments))")
                #expect(plain.text(for: ["up"] + arguments).isEmpty, "the other process finds the same values")
            }
            for arguments in [
                ["up"], ["up", "-v"], ["up", ""], ["up", "wg0", "-v"], ["up", "--"], ["down", "wg0"],
                ["up", "wg0", "--report-descriptor"], ["up", "wg0", "--report-descriptor", "x"],
                ["up", "wg0", "--report-descriptor", "-1"], ["up", "wg0", "--run-programs"],
                ["up", "wg0", "--run-programs", "--foreground"], ["up", "--", "wg0"], ["up", "wg0", "--"],
            ] {
                #expect(PassedUp(plain: arguments) == nil, "\(arguments)")
            }
        }
    }
#endif
