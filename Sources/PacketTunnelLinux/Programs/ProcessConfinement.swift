// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// The restrictions of a process that reads data from a network.
package enum ProcessConfinement {
    /// Confines the process: keeps only `CAP_NET_ADMIN`; forbids new privileges, core dumps and debuggers; and installs
    /// a filter that refuses every system call that a running tunnel does not need. The process can then start no
    /// program (see ``ProgramClient``). It must have only one thread.
    /// - Parameter bindsLowPort: Whether to keep `CAP_NET_BIND_SERVICE` as well.
    /// - Returns: The restrictions that failed, as text for users.
    package static func enter(bindsLowPort: Bool) -> [String] {
        let netBindService: UInt64 = 1 << 10
        let netAdmin: UInt64 = 1 << 12
        let steps: [(String, Int32)] = [
            ("drop capabilities", ctunnel_keep_capabilities(netAdmin | (bindsLowPort ? netBindService : 0))),
            ("forbid new privileges", ctunnel_forbid_new_privileges()),
            ("forbid core dumps and debuggers", ctunnel_forbid_dumps()),
            ("confine its system calls", ctunnel_confine_calls(1)),
        ]
        return steps.compactMap { $0.1 == 0 ? nil : "cannot \($0.0): \(SystemError.text($0.1))" }
    }
}
