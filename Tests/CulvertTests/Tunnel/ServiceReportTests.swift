// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnel
import Provisioning
import Testing
import WireGuardTunnel

@testable import culvert

@Suite("The report of a tunnel's process")
struct ServiceReportTests {
    private let report = Samples.report(wireGuard: nil)

    @Test("Each kind of provider adds its status, and no other")
    func kinds() async {
        let wireGuard = await WireGuardTunnelConfiguration.report(WireGuardTunnelProvider(), in: report)
        #expect(wireGuard.wireGuard?.state == .stopped)
        // A provider that has no key yet does not hide the configured one.
        #expect(wireGuard.publicKey == report.publicKey && report.publicKey != nil)
        let login = await CredentialTunnelConfiguration.report(CredentialTunnelProvider(), in: report)
        #expect(login == report)
        let enrolled = await EnrolledTunnelConfiguration.report(EnrolledTunnelProvider(), in: report)
        #expect(enrolled.wireGuard?.state == .stopped && enrolled.enrolment == nil)
        #expect(enrolled.addresses == report.addresses)
    }

    @Test("A tunnel that is down is reported without a provider's status")
    func down() async {
        let host = MemoryHost<WireGuardTunnelProvider>()
        #expect(await report.updated(WireGuardTunnelConfiguration.self, from: host.runner) == report)
    }
}
