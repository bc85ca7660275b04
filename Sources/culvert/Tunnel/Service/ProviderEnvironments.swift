// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import TunnelIO
import WireGuardDevice
import WireGuardTunnel

/// The environments that the providers of `culvert up` get. The options of the data path are the same for all of them.
struct ProviderEnvironments: Sendable {
    /// The memory of the data path; `nil` for no limit.
    private let budget: MemoryBudget?
    private let dataPath: DataPathOptions

    /// The environments that the options of a command describe.
    init(_ command: UpCommand) {
        // The command has been validated.
        budget = try? MemoryBudget(text: command.memory, lanes: 1)
        dataPath = DataPathOptions()
    }

    /// The environment of WireGuard, with or without enrolment.
    /// - Parameter interface: The name of the interface, which is also that of the management socket.
    func wireGuard(_ interface: String) -> WireGuardEnvironment {
        var environment = WireGuardEnvironment()
        (environment.budget, environment.dataPath) = (budget, dataPath)
        environment.managementSocket = ManagementSocket.path(forInterface: interface)
        return environment
    }

    /// The environment of login tunnels. They use only the lane's sizes of the budget.
    var login: CredentialEnvironment {
        var environment = CredentialEnvironment()
        environment.dataPath = dataPath
        environment.dataPath.lane = dataPath.configuration(within: budget?.lane)
        return environment
    }
}
