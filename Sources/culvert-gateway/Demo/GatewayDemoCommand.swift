// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import DemoSupport

/// `culvert gateway demo`.
struct GatewayDemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Run a gateway and a device on this machine, and show what happens.",
        discussion: """
            Without --tun it needs no privileges: the gateway has a temporary folder, real TLS and real UDP on 127.0.0.1, and \
            interfaces in memory. Shown are an invitation, a gateway with other pins that is refused, an enrolment over pinned TLS, \
            pings and a bulk transfer each way through the tunnel, PIA's addKey, and a revoked device that is cut off.

            With --tun (root) a gateway, a device and a server run in three network namespaces, with the programs that people use: \
            'culvert gateway run', 'culvert enroll', 'culvert up', ping and, where it is installed, iperf3. Shown are real \
            interfaces, NAT to a server that knows no way back, rules of the firewall, and a revoked device. Everything that is made \
            is removed, after Ctrl-C too.

            Examples:
              culvert gateway demo
              sudo culvert gateway demo --tun

            Exit status: 0 every step succeeded, 1 a step failed, 2 wrong usage, 130 after Ctrl-C.
            """)

    @Flag(help: "Use real interfaces, NAT and firewall in network namespaces (needs root).")
    var tun = false

    @Flag(help: "Print plain lines without colour, as when the output is no terminal or NO_COLOR is set.")
    var plain = false

    @Option(help: ArgumentHelp("How long each bulk transfer sends: 1 to 60.", valueName: "n"))
    var seconds = 2

    func validate() throws {
        guard (1...60).contains(seconds) else {
            throw ValidationError("--seconds is \(seconds); it must be from 1 to 60")
        }
    }

    func run() throws {
        let console = Console.standard
        let style: DemoView.Style = console.isLive && !plain ? .live : .plain
        try finish(
            tun
                ? NamespaceDemo.run(
                    "gateway", seconds: seconds, style: style, console: console, command: "gateway demo")
                : GatewayDemo.run(seconds: seconds, style: style, console: console))
    }
}
