// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Testing

    @testable import culvert

    @Suite("The options of culvert up that a process passes to another")
    struct PassedUpTests {
        @Test(
            "Parsed options of `up` are the same in another process",
            arguments: [
                [],
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
            let command = try #require(UpCommand.parsed(from: ["up", "wg0"] + options))
            let passed = try #require(PassedUp(text: PassedUp(command).text))
            #expect(passed == PassedUp(command))
            // The description has every option, even one that is not passed.
            #expect("\(passed.command)" == "\(command)")
            let text = PassedUp(command).text
            #expect(PassedUp(text: Array(text.dropLast())) == nil && PassedUp(text: []) == nil)
            let other = String(decoding: text, as: UTF8.self).replacing("everything", with: "nothing")
            #expect(options.isEmpty || PassedUp(text: Array(other.utf8)) == nil, "an unknown policy is not left out")
        }
    }
#endif
