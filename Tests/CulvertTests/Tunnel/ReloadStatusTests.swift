// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Testing

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
    func status(_ code: TunnelError.Code, _ status: Int32) {
        let failure = TunnelError(code, "cannot keep the firewall table").handlerFailure
        let error = LiveTunnel.problem(.handlerFailed(failure))
        #expect(error == TunnelError(code, "cannot keep the firewall table"))
        #expect(ReloadCommand.status(of: error.handlerFailure) == status)
    }

    @Test("An error without a code is one of the file, and a tunnel that does not answer fails")
    func other() {
        #expect(LiveTunnel.problem(.handlerFailed(HandlerFailure(message: "x"))).code == .configurationInvalid)
        #expect(LiveTunnel.problem(.handlerTimeout).code == .notRunning)
        #expect(ReloadCommand.status(of: HandlerFailure(message: "x")) == ExitStatus.failure)
    }
}
