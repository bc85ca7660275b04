// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import DemoSupport
import TunnelSystem

/// `culvert demo`: shows the whole stack at work.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Run two WireGuard devices against each other and show what happens.",
        discussion: """
            Without --tun it needs no privileges: both devices run in this process, over UDP on 127.0.0.1. Shown are \
            handshake, pings, a bulk transfer each way in which every byte is compared, roaming, and a change of the \
            pre-shared key. With --tun (Linux, root) 'culvert up' runs a tunnel in each of two network namespaces, with \
            real interfaces. The system's own ping and, if it is installed, iperf3 use them, and 'culvert reload' moves \
            the client to another port. Everything that is made is removed, after Ctrl-C too.

            Examples:
              culvert demo
              culvert demo --seconds 10
              culvert demo --plain > demo.txt
              culvert demo --json | jq .transfer.upload.megabitsPerSecond
              sudo culvert demo --tun

            Exit status: 0 every step succeeded, 1 a step failed or its deadline passed, 2 wrong usage, 130 after Ctrl-C.
            """)

    @Flag(help: "Use real interfaces in network namespaces (Linux, needs root).")
    var tun = false

    @Flag(help: "Print one JSON document with all figures, and nothing else.")
    var json = false

    @Flag(help: "Print plain lines without colour, as when the output is no terminal or NO_COLOR is set.")
    var plain = false

    @Option(help: ArgumentHelp("How long each bulk transfer sends: 1 to 60.", valueName: "n"))
    var seconds = 3

    func validate() throws {
        guard (1...60).contains(seconds) else {
            throw ValidationError("--seconds is \(seconds); it must be from 1 to 60")
        }
    }

    func run() throws {
        let (console, isJSON) = (Console.standard, json)
        let style: DemoView.Style = json ? .silent : console.isLive && !plain ? .live : .plain
        if tun {
            return try finish(
                NamespaceDemo.run("tunnel", seconds: seconds, style: style, console: console, command: "demo") {
                    report in
                    if isJSON { console.line(Demo.json(namespaces: report).text) }
                })
        }
        let demo = Demo(plan: Demo.Plan(transfer: .seconds(seconds)), view: DemoView(style, console: console))
        demo.run()
        if json { console.line(Demo.json(demo.report, demo.drops).text) }
        if let failure = demo.report.failure {
            console.problem("culvert: the demonstration failed: \(failure)")
            try finish(ExitStatus.failure)
        }
    }
}
