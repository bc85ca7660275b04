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

        @Test("The age of a handshake that did not fall shows that no newer one followed")
        func ages() throws {
            func isOlder(_ before: String, _ after: String) throws -> Bool {
                try Self.run("is_not_younger", [before, after]).status == 0
            }
            #expect(try isOlder("4.250", "4.750") && isOlder("9.5", "10.25") && isOlder("3", "3"))
            #expect(try !isOlder("4.250", "0.125") && !isOlder("10.25", "9.5"))
            // The tunnel had no handshake, or has none.
            #expect(try !isOlder("null", "1.000") && !isOlder("1.000", "null") && !isOlder("", ""))
        }

        @Test("A program that does not end in time ends the script, with an error that names the step")
        func timeLimit() throws {
            let outcome = try Self.run(
                "bounded", ["sleep", "60"],
                also: """
                    die() { echo "$*"; exit 1; }
                    folder=$(mktemp -d) limit=0.1 step=roaming ending=''
                    trap 'rm -rf "$folder"' EXIT
                    """)
            #expect(outcome.status == 1)
            #expect(outcome.output == "the step 'roaming' was not over after 0.1 s: sleep 60\n")
        }

        @Test("A script without a reader of its reports ends, and its removal does not")
        func reader() throws {
            #expect(try Self.run("say", ["begin", "NAT"], also: "exec 9>&-; ending=''").status == 1)
            #expect(try Self.run("say", ["begin", "removal"], also: "exec 9>&-; ending=yes").status == 0)
            #expect(try Self.run("say", ["begin", "NAT"], also: "exec 9>&1; ending=''").output == "begin\tNAT\n")
        }

        @Test("A transfer that does not start is left out, and the upload before it is not")
        func transfers() throws {
            func leftOut(_ started: String) throws -> String {
                try Self.run(
                    "transfers", ["up", "down", "ns", "10.77.0.1"],
                    also:
                        "transfer() { case ' \(started) ' in *\" $1 \"*) ;; *) return 1 ;; esac; }; say() { echo \"$2\"; }"
                ).output
            }
            #expect(try leftOut("upload download").isEmpty)
            #expect(try leftOut("upload") == "iperf3.download\n")
            #expect(try leftOut("") == "iperf3\n")
        }

        /// The output of a function of namespaces.sh that gets a text as its input.
        private static func figures(_ name: String, of text: String) throws -> String {
            let outcome = try run(name, [], input: text)
            #expect(outcome.status == 0)
            return outcome.output
        }

        /// Runs a function of namespaces.sh.
        /// - Parameter also: Commands before that.
        private static func run(
            _ name: String, _ arguments: [String], input: String = "", also: String = ":"
        ) throws -> ChildProcess.Outcome {
            let script = String(decoding: PackageResources.namespaces_sh, as: UTF8.self)
            let start = try #require(script.range(of: "\n\(name)() {"))
            let end = try #require(script.range(of: "\n}\n", range: start.lowerBound..<script.endIndex))
            let function = script[start.lowerBound..<end.upperBound]
            let commands = "\(also)\(function)text=$1; shift; printf '%s\\n' \"$text\" | \(name) \"$@\""
            let child = try ChildProcess(
                "/bin/sh", arguments: ["sh", "-c", commands, "sh", input] + arguments,
                environment: ["PATH=/usr/bin:/bin", "LC_ALL=C"])
            guard case .ended(let outcome) = child.wait(until: LaneClock.now() + 60 * LaneClock.nanosecondsPerSecond)
            else { throw CommandFailure("\(name) does not end") }
            return outcome
        }
    }
#endif
