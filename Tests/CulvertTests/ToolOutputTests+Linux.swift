// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CommandLineTesting
    import Foundation
    import PacketTunnelLinux
    import Testing
    import TunnelIO
    import TunnelSystem

    @testable import DemoSupport
    @testable import culvert

    @Suite("Output of ping and iperf3")
    struct ToolOutputTests {
        @Test("The figures of ping are read")
        func pings() throws {
            let text = """
                PING 10.77.0.1 (10.77.0.1) 56(84) bytes of data.

                --- 10.77.0.1 ping statistics ---
                50 packets transmitted, 49 received, 2% packet loss, time 981ms
                rtt min/avg/max/mdev = 0.058/0.092/0.402/0.061 ms
                """
            #expect(
                try Self.figures("ping_figures", of: text) == "50\t49\t0.058\t0.092\t0.402\n")
        }

        @Test("A ping without answers has no times")
        func noAnswers() throws {
            let text = "3 packets transmitted, 0 received, 100% packet loss, time 2030ms"
            #expect(try Self.figures("ping_figures", of: text) == "3\t0\t\t\t\n")
            #expect(try Self.figures("ping_figures", of: "ping: connect: Network is unreachable") == "")
            #expect(try Self.figures("ping_figures", of: "rtt min/avg/max/mdev = 1/2/3/4 ms") == "")
        }

        @Test("The receiver's rate and the sender's retransmissions of iperf3 are read")
        func transfer() throws {
            let text = """
                [ ID] Interval           Transfer     Bitrate         Retr
                [  5]   0.00-3.00   sec   353 MBytes   988 Mbits/sec   12             sender
                [  5]   0.00-3.04   sec   351 MBytes   968 Mbits/sec                  receiver

                iperf Done.
                """
            #expect(try Self.figures("transfer_figures", of: text) == "968\t12\n")
            #expect(try Self.figures("transfer_figures", of: "iperf3: error - unable to connect to server") == "")
        }

        @Test("The report of real interfaces keeps its shape, with and without figures")
        func report() {
            let captured = CapturedConsole()
            var lines = DemoLines(view: DemoView(.plain, console: captured.console()))
            let names = [
                "ok", "error", "version", "mode", "elapsedSeconds", "firstPing", "ping", "iperf3", "roaming", "client",
            ]
            #expect(Demo.json(namespaces: lines.report).names == names)
            for line in ["without\tiperf3\tnot installed", "pings\tipv4\t2\t1\t0.5\t0.5\t0.5"] { lines.show(line) }
            lines.close(nil)
            #expect(captured.output.contains("Summary\n"))
            lines.close("interrupted")
            let json = Demo.json(namespaces: lines.report)
            #expect(json.names == names)
            #expect(json["iperf3"] == .null)
            #expect(json["ping"]?["ipv4"]?["lost"] == .integer(1))
            #expect(json["ok"] == false)
        }

        /// The output of a function of namespaces.sh that gets a text as its input.
        private static func figures(_ name: String, of text: String) throws -> String {
            let script = String(decoding: PackageResources.namespaces_sh, as: UTF8.self)
            let start = try #require(script.range(of: "\n\(name)() {"))
            let end = try #require(script.range(of: "\n}\n", range: start.lowerBound..<script.endIndex))
            let function = script[start.lowerBound..<end.upperBound]
            let child = try ChildProcess(
                "/bin/sh", arguments: ["sh", "-c", "\(function)printf '%s\\n' \"$1\" | \(name)", "sh", text],
                environment: ["PATH=/usr/bin:/bin", "LC_ALL=C"])
            guard case .ended(let outcome) = child.wait(until: LaneClock.now() + 60 * LaneClock.nanosecondsPerSecond)
            else {
                throw DemoFailure("\(name) does not end")
            }
            #expect(outcome.status == 0)
            return outcome.output
        }
    }
#endif
