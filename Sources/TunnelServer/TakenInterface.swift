// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux
import TunnelIO

extension ServerNetworkSettings {
    /// The first interface that another process has: a gateway with another journal, or a tunnel. The firewall's table has the name of
    /// the interface, so it is that process's table. `nil` if the owner of this journal runs, which the ledger reports.
    func takenInterface(_ network: LinuxNetwork) throws(LinuxNetworkError) -> String? {
        let owner = try JournalDirectory(path: journalFolder).read(name)?.owner
        guard owner?.isAlive() != true else { return nil }
        for name in tunnels where try network.netlink.link(named: name) != nil {
            // An administrator may have made the interface for the gateway.
            if TunAttributes.ofInterface(named: name)?.isPersistent != true { return name }
        }
        return nil
    }
}
