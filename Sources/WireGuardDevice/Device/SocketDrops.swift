// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// What sockets dropped by themselves, before a lane saw it.
struct SocketDrops: Hashable {
    /// Datagrams larger than there was room for.
    var oversize = 0
    /// Datagrams that found the system's queue full.
    var overflowed = 0

    /// Adds what these sockets have dropped so far.
    mutating func add(_ sockets: DatagramSockets?) {
        for socket in sockets?.all ?? [] {
            let drops = socket.receiveDrops
            oversize &+= drops.oversize
            overflowed &+= drops.overflowed
        }
    }
}
