// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The bounds of a management socket's memory.
struct ManagementLimits: Hashable {
    /// Connections beyond this many wait until one of the others ends.
    var connections = 64
    /// The most bytes that are read of one connection at a time.
    var chunkBytes = 65_536
    /// The longest line of a request, in bytes.
    var lineBytes = UAPIRequestParser.defaultMaximumLineLength
    /// The most parts, each about one peer, of one request.
    var requestPeers = Int.max
    /// The most changes of allowed IPs of one request.
    var requestAllowedIPs = Int.max
    /// Once replies of this many bytes wait, the operations behind them wait too.
    var replyBytes = 1 << 20

    /// The limits for a root process's tools, without a memory budget.
    init() {}

    /// Enough for any request and any reply with this many peers, and not much more.
    init(peers: Int, allowedIPs: Int) {
        connections = 2
        chunkBytes = 4_096
        lineBytes = 4_096
        // One request may remove all peers, and add as many.
        requestPeers = 2 * peers
        requestAllowedIPs = 2 * allowedIPs
        replyBytes = Self.replyBytes(peers, allowedIPs)
        let request = requestPeers * 3 * Self.peerUpdateBytes + requestAllowedIPs * 3 * Self.allowedIPChangeBytes
        // Of the shortest requests, seven bytes each, a chunk may hold many.
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

    /// No fewer bytes than a reply about this many peers has.
    static func replyBytes(_ peers: Int, _ allowedIPs: Int) -> Int { 256 + 512 * peers + 64 * allowedIPs }
}
