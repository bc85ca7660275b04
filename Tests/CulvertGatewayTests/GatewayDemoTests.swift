// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CommandLineTesting
    import DemoSupport
    import Testing
    import TunnelSystem

    @testable import culvert_gateway

    @Suite("`culvert gateway demo` shows an enrolment and a tunnel", .timeLimit(.minutes(2)))
    struct GatewayDemoTests {
        @Test("The gateway's demonstration enrols a device, compares every byte through its tunnel, and cuts it off")
        func plain() async {
            let captured = CapturedConsole()
            let report = DemoReport(DemoView(.plain, console: captured.console()), GatewayDemo.members)
            let status = await report.run { try await GatewayDemo(transfer: .milliseconds(50)).show($0) }
            #expect(status == 0 && report.failure == nil)
            for step in [
                "gateway", "invitation", "other pins", "enrolment", "used again", "tunnel", "ping IPv4", "ping IPv6",
                "upload", "download", "PIA's addKey", "revoked",
            ] {
                #expect(captured.output.contains("ok      \(step)"), "\(step)")
            }
            for transfer in ["transfer.upload", "transfer.download"] {
                #expect(report["\(transfer).packetsDamaged"] == .integer(0))
                guard case .integer(let received) = report["\(transfer).packetsReceived"], received > 0 else {
                    Issue.record("nothing was received: \(transfer)")
                    return
                }
                #expect(report["\(transfer).bytes"] == .integer(received * 1420))
            }
        }
    }
#endif
