// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Testing
import WireGuardTunnel

@testable import culvert

/// A reload that failed because nft did had the exit status of a wrong file.
@Suite("The exit status of culvert reload")
struct ReloadStatusTests {
    @Test(
        "A file that cannot be used has status 2, and a host that fails has status 1",
        arguments: [
            (TunnelError.Code.configurationInvalid, ExitStatus.usage), (.settingsInvalid, ExitStatus.usage),
            (.secretUnavailable, ExitStatus.usage), (.settingsFailed, ExitStatus.failure),
            (.settingsTimedOut, ExitStatus.failure), (.nameResolutionFailed, ExitStatus.failure),
            (.notRunning, ExitStatus.failure),
        ])
    func status(_ code: TunnelError.Code, _ status: Int32) async throws {
        let tunnel = LoadedTunnel(
            name: "wg0", source: "wg0.conf",
            kind: .wireGuard(WireGuardTunnelConfiguration(addresses: [], peers: [])), secrets: FixedSecrets([:]),
            profileID: "file")
        let live = LiveTunnel(tunnel, tunnel.configuration) { tunnel }
        let failure = TunnelError(code, "cannot keep the firewall table")
        let error = try #require(
            await #expect(throws: TunnelError.self) {
                try await live.reload { _ throws(TunnelError) in throw failure }
            })
        #expect(error == failure)
        #expect(ReloadCommand.status(of: error.handlerFailure) == status)
    }

    @Test("An error without a code is a failure")
    func other() {
        #expect(ReloadCommand.status(of: HandlerFailure(message: "x")) == ExitStatus.failure)
    }
}
