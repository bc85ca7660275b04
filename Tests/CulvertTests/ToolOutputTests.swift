// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing
import TunnelSystem

@testable import culvert

@Suite("Output of ping and iperf3")
struct ToolOutputTests {
    @Test("The figures of ping are read")
    func pings() {
        let text = """
            PING 10.77.0.1 (10.77.0.1) 56(84) bytes of data.

            --- 10.77.0.1 ping statistics ---
            50 packets transmitted, 49 received, 2% packet loss, time 981ms
            rtt min/avg/max/mdev = 0.058/0.092/0.402/0.061 ms
            """
        #expect(
            ToolOutput.pings(text)
                == Pings(sent: 50, answered: 49, minimum: 0.058, mean: 0.092, maximum: 0.402))
    }

    @Test("A ping without answers has no times")
    func noAnswers() {
        let text = "3 packets transmitted, 0 received, 100% packet loss, time 2030ms"
        #expect(ToolOutput.pings(text) == Pings(sent: 3, answered: 0))
        #expect(ToolOutput.pings("ping: connect: Network is unreachable") == nil)
        #expect(ToolOutput.pings("rtt min/avg/max/mdev = 1/2/3/4 ms") == nil)
    }

    @Test("The receiver's rate and the sender's retransmissions of iperf3 are read")
    func transfer() {
        let text = """
            [ ID] Interval           Transfer     Bitrate         Retr
            [  5]   0.00-3.00   sec   353 MBytes   988 Mbits/sec   12             sender
            [  5]   0.00-3.04   sec   351 MBytes   968 Mbits/sec                  receiver

            iperf Done.
            """
        #expect(ToolOutput.transfer(text) == ToolOutput.Transfer(megabitsPerSecond: 968, retransmissions: 12))
        #expect(ToolOutput.transfer("iperf3: error - unable to connect to server") == nil)
    }

    @Test("The report of real interfaces keeps its shape, with and without figures")
    func report() {
        var report = NamespaceReport()
        let names = [
            "ok", "error", "version", "mode", "elapsedSeconds", "firstPing", "ping", "iperf3", "roaming", "client",
        ]
        #expect(report.json.names == names)
        report.hasIperf = false
        report.failure = "interrupted"
        report.pingsV4 = Pings(sent: 2, answered: 1, minimum: 0.5, mean: 0.5, maximum: 0.5)
        #expect(report.json.names == names)
        #expect(report.json["iperf3"] == .null)
        #expect(report.json["ping"]?["ipv4"]?["lost"] == .integer(1))
        #expect(report.json["ok"] == false)
        #expect(report.summary.contains { $0.contains("Summary") })
    }
}
