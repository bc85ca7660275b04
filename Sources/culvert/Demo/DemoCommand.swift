// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import DemoSupport

/// `culvert demo`: shows the whole stack at work.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Run two WireGuard devices against each other and show what happens.",
        discussion: """
            Without --tun it needs no privileges: both devices run in this process, over UDP on 127.0.0.1. Shown are \
            handshake, pings, a bulk transfer each way in which every byte is compared, roaming, and a change of the \
            pre-shared key. With --tun (Linux, root) 'culvert up' runs a tunnel in each of two network namespaces, with \
            real interfaces. The system's own ping and, if they are installed, iperf3 and wg use them: 'wg set' moves the \
            client to another port. Everything that is made is removed, after Ctrl-C too.

            Examples:
              culvert demo
              culvert demo --seconds 10
              culvert demo --plain > demo.txt
              culvert demo --json | jq .transfer.upload.megabitsPerSecond
              sudo culvert demo --tun

            Exit status: 0 every step succeeded, 1 a step failed or its deadline passed, 2 wrong usage, 130 after Ctrl-C.
            """)

    @OptionGroup var options: DemoOptions<Demo>

    @Flag(help: "Print one JSON document with all figures, and nothing else.")
    var json = false

    func run() throws { try finish(options.run(isJSON: json)) }
}
