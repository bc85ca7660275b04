// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CredentialTunnel
import Testing
import TunnelIO
import WireGuardDevice
import WireGuardTunnel

@testable import culvert

@Suite("The environments of the providers of culvert up")
struct ProviderEnvironmentsTests {
    @Test(
        "WireGuard and login tunnels get lanes of the size that --memory specifies",
        arguments: [("16:10", ["--memory", "16:10"]), ("client", [])])
    func memory(_ text: String, _ arguments: [String]) throws {
        let budget = try MemoryBudget(text: text, lanes: 1)
        let environments = ProviderEnvironments(try UpCommand.parse(["wg0"] + arguments))
        let (wireGuard, login) = (environments.wireGuard("wg0"), environments.login)
        #expect(wireGuard.budget == budget)
        #expect(wireGuard.managementSocket == ManagementSocket.path(forInterface: "wg0"))
        let options = WireGuardDevice.Options(budget: wireGuard.budget, dataPath: wireGuard.dataPath)
        #expect(options.lane == budget.lane && login.dataPath.configuration() == budget.lane)
        #expect(wireGuard.dataPath.layout == login.dataPath.layout)
    }
}
