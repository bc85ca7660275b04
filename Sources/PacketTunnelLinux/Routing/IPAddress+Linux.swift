// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel

extension IPAddress {
    /// The address family's number, as the kernel wants it.
    var addressFamily: UInt8 { UInt8(isIPv6 ? AF_INET6 : AF_INET) }
}
