// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The bounds of a management socket's memory.
struct ManagementLimits: Hashable {
    /// The maximum number of connections. Further ones wait until one ends.
    var connections = 64
    /// The maximum number of bytes to read from a connection at a time.
    var chunkBytes = 65_536
    /// The longest line of a request, in bytes.
    var lineBytes = UAPIRequestParser.defaultMaximumLineLength
    /// The maximum number of peer sections in a request.
    var requestPeers = Int.max
    /// The maximum number of changes of allowed IPs in a request.
    var requestAllowedIPs = Int.max
    /// The number of waiting reply bytes from which on further operations wait too.
    var replyBytes = 1 << 20

    /// The limits for a root process's tools, without a memory budget.
    init() {}

    /// Creates limits for any request and any reply with this many peers, without much reserve.
    init(peers: Int, allowedIPs: Int) {
        connections = 2
        chunkBytes = 4_096
        lineBytes = 4_096
        // One request may remove all peers and add as many.
        requestPeers = 2 * peers
        requestAllowedIPs = 2 * allowedIPs
        replyBytes = Self.replyBytes(peers, allowedIPs)
        let request = requestPeers * 3 * Self.peerUpdateBytes + requestAllowedIPs * 3 * Self.allowedIPChangeBytes
        // A chunk can contain many of the shortest requests, which have seven bytes.
        let results = chunkBytes / 7 * 3 * Self.resultBytes
        let state = 2 * (peers * Self.peerStateBytes + allowedIPs * MemoryLayout<IPPrefix>.stride)
        byteCount = connections * (chunkBytes + 2 * lineBytes + request + results + 2 * replyBytes) + state
    }

    /// The memory limit of all these, or zero if unbounded.
    private(set) var byteCount = 0

    private static let peerUpdateBytes = MemoryLayout<UAPIPeerUpdate>.stride
    private static let allowedIPChangeBytes = MemoryLayout<AllowedIPChange>.stride
    private static let resultBytes = MemoryLayout<Result<UAPIOperation, UAPIError>>.stride
    private static let peerStateBytes = MemoryLayout<PeerSnapshot>.stride + MemoryLayout<UAPIPeerState>.stride

    /// Returns an upper bound for the size of a reply about this many peers.
    static func replyBytes(_ peers: Int, _ allowedIPs: Int) -> Int { 256 + 512 * peers + 64 * allowedIPs }
}
