// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The error of a configuration change that exceeds the engine's limits. No part of the change was applied.
public enum EngineLimitError: Error, Hashable, Sendable, CustomStringConvertible {
    /// More peers than ``EngineLimits/peers``.
    case tooManyPeers(count: Int, limit: Int)
    /// More networks than ``EngineLimits/allowedIPs``.
    case tooManyAllowedIPs(count: Int, limit: Int)

    /// The exceeded bound and the remedy.
    public var description: String {
        switch self {
        case .tooManyPeers(let count, let limit):
            "\(count) peers are more than the \(limit) that the memory budget has room for; remove peers first, or give "
                + "the device a larger budget"
        case .tooManyAllowedIPs(let count, let limit):
            "\(count) allowed IPs are more than the \(limit) that the memory budget has room for; join networks, or give "
                + "the device a larger budget"
        }
    }
}

extension Engine {
    /// Checks that an update stays within the limits, before any part of it is applied.
    ///
    /// The parts are counted in the order in which they would be applied. A network that the update itself moves to
    /// another peer still counts until the end, so an update that is refused for this reason succeeds in two parts.
    public func checkLimits(of update: UAPIDeviceUpdate) throws(EngineLimitError) {
        var check = LimitCheck(peerCount: slots.count, allowedIPCount: allowedIPs.count)
        // A small update fits in any case, so skip the exact count.
        let added = update.peers.reduce(0) { $0 + $1.allowedIPs.count }
        if slots.count + update.peers.count <= limits.peers, allowedIPs.count + added <= limits.allowedIPs { return }
        if update.replacePeers {
            check = LimitCheck(peerCount: 0, allowedIPCount: 0)
            check.isEmptied = true
        }
        for peer in update.peers { try check.add(peer, self) }
    }
}

/// Counts the peers and networks of an update, part by part.
private struct LimitCheck {
    var peerCount: Int
    var allowedIPCount: Int
    /// Whether the update has removed all of the engine's peers.
    var isEmptied = false
    /// Whether a peer in the update exists after the last part that names it.
    private var isPresent: [PublicKey: Bool] = [:]
    /// The number of networks that the engine's peers have lost, by slot.
    private var lost: [Int32: Int] = [:]
    private var cleared: Set<Int32> = []
    /// The networks that the update assigns to a peer.
    private var given: Set<IPPrefix> = []

    init(peerCount: Int, allowedIPCount: Int) {
        self.peerCount = peerCount
        self.allowedIPCount = allowedIPCount
    }

    mutating func add(_ update: UAPIPeerUpdate, _ engine: borrowing Engine) throws(EngineLimitError) {
        let key = update.publicKey
        let slot = isEmptied ? nil : engine.slots[key]
        let wasPresent = isPresent[key] ?? (slot != nil)
        if update.remove {
            guard wasPresent else { return }
            isPresent[key] = false
            peerCount -= 1
            clear(slot, engine)
            return
        }
        if !wasPresent {
            if update.updateOnly || key == engine.publicKey { return }
            isPresent[key] = true
            peerCount += 1
            guard peerCount <= engine.limits.peers else {
                throw .tooManyPeers(count: peerCount, limit: engine.limits.peers)
            }
        }
        if update.replaceAllowedIPs { clear(slot, engine) }
        for change in update.allowedIPs {
            guard case .add(let prefix) = change, given.insert(prefix).inserted else { continue }
            if !isEmptied, let owner = engine.allowedIPs.owner(of: prefix), !cleared.contains(owner) {
                // The network moves, so its previous owner has one network fewer to remove.
                lost[owner, default: 0] += 1
            } else {
                allowedIPCount += 1
            }
            guard allowedIPCount <= engine.limits.allowedIPs else {
                throw .tooManyAllowedIPs(count: allowedIPCount, limit: engine.limits.allowedIPs)
            }
        }
    }

    /// Removes the remaining networks of a peer of the engine.
    private mutating func clear(_ slot: Int32?, _ engine: borrowing Engine) {
        guard let slot, cleared.insert(slot).inserted else { return }
        allowedIPCount -= engine.allowedIPs.count(of: slot) - lost[slot, default: 0]
    }
}
