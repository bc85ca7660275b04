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
        var check = LimitCheck(of: update)
        while try checkLimits(of: update, &check, work: .max) {}
    }

    /// Checks some of an update, so that the engine's owner does not block other threads for the time that all of it
    /// needs. The owner must prevent changes of the configuration until the update is applied.
    /// - Parameters:
    ///   - check: The position and the counts. Each update needs a new one.
    ///   - work: The most peers, and changes of allowed IPs, of this call.
    /// - Returns: Whether a part of the update is left.
    package func checkLimits(
        of update: UAPIDeviceUpdate, _ check: inout LimitCheck, work: Int
    ) throws(EngineLimitError) -> Bool {
        guard check.begin(update, self) else { return false }
        var work = work
        while check.peer < update.peers.count, work > 0 {
            try check.add(update.peers[check.peer], &work, self)
        }
        return check.peer < update.peers.count
    }
}

/// Counts the peers and networks of an update, part by part.
package struct LimitCheck {
    /// The number of allowed IPs in the update, including those that it removes.
    private let added: Int
    /// The device's public key after the update, which cannot be a peer.
    private var ownKey: PublicKey?
    private var hasBegun = false
    private var peerCount = 0
    private var allowedIPCount = 0
    /// Whether the update has removed all of the engine's peers.
    private var isEmptied = false
    /// The position in the list of the update's peers.
    private(set) var peer = 0
    /// The position in the list of that peer's changes of allowed IPs; `nil` before its other settings.
    private var change: Int?
    /// Whether a peer in the update exists after the last part that names it.
    private var isPresent: [PublicKey: Bool] = [:]
    /// The number of networks that the engine's peers have lost, by slot.
    private var lost: [Int32: Int] = [:]
    private var cleared: Set<Int32> = []
    /// The networks that the update assigns to a peer.
    private var given: Set<IPPrefix> = []

    /// The beginning of the check. The owner of a shared engine creates it without the engine's lock, because it visits
    /// all peers of the update.
    package init(of update: UAPIDeviceUpdate) { added = update.peers.reduce(0) { $0 + $1.allowedIPs.count } }

    /// - Returns: `false` if there is nothing to count: a small update fits in any case.
    fileprivate mutating func begin(_ update: UAPIDeviceUpdate, _ engine: borrowing Engine) -> Bool {
        guard !hasBegun else { return true }
        hasBegun = true
        (peerCount, allowedIPCount) = (engine.peerCount, engine.allowedIPs.count)
        let limits = engine.limits
        if peerCount + update.peers.count <= limits.peers, allowedIPCount + added <= limits.allowedIPs { return false }
        // Tables that grow would hold the engine while all their entries move.
        isPresent.reserveCapacity(update.peers.count)
        given.reserveCapacity(added)
        if update.replacePeers {
            (peerCount, allowedIPCount, isEmptied) = (0, 0, true)
        } else {
            cleared.reserveCapacity(min(peerCount, update.peers.count))
            lost.reserveCapacity(min(peerCount, added))
        }
        ownKey =
            switch update.privateKey {
            case .unchanged: engine.publicKey
            case .clear: nil
            case .set(let key): key.isZero ? nil : Identity(key.clamped).publicKey
            }
        if let ownKey, !isEmptied, let slot = engine.slot(of: ownKey) {
            // The first change of the update removes the peer that has the new key of the device.
            isPresent[ownKey] = false
            peerCount -= 1
            clear(slot, engine)
        }
        return true
    }

    private mutating func nextPeer() {
        (peer, change) = (peer + 1, nil)
    }

    /// Counts a peer of the update, or some of its changes of allowed IPs.
    fileprivate mutating func add(
        _ update: UAPIPeerUpdate, _ work: inout Int, _ engine: borrowing Engine
    ) throws(EngineLimitError) {
        if change == nil {
            work -= 1
            guard try addSettings(update, engine) else {
                nextPeer()
                return
            }
        }
        var position = change ?? 0
        while position < update.allowedIPs.count, work > 0 {
            work -= 1
            if case .add(let prefix) = update.allowedIPs[position] { try add(prefix, engine) }
            position += 1
        }
        change = position
        if position == update.allowedIPs.count { nextPeer() }
    }

    /// - Returns: `false` if the changes of allowed IPs have no effect.
    private mutating func addSettings(
        _ update: UAPIPeerUpdate, _ engine: borrowing Engine
    ) throws(EngineLimitError) -> Bool {
        let key = update.publicKey
        let slot = isEmptied ? nil : engine.slot(of: key)
        let wasPresent = isPresent[key] ?? (slot != nil)
        if update.remove {
            guard wasPresent else { return false }
            isPresent[key] = false
            peerCount -= 1
            clear(slot, engine)
            return false
        }
        if !wasPresent {
            if update.updateOnly || key == ownKey { return false }
            isPresent[key] = true
            peerCount += 1
            guard peerCount <= engine.limits.peers else {
                throw .tooManyPeers(count: peerCount, limit: engine.limits.peers)
            }
        }
        if update.replaceAllowedIPs { clear(slot, engine) }
        return true
    }

    private mutating func add(_ prefix: IPPrefix, _ engine: borrowing Engine) throws(EngineLimitError) {
        guard given.insert(prefix).inserted else { return }
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

    /// Removes the remaining networks of a peer of the engine.
    private mutating func clear(_ slot: Int32?, _ engine: borrowing Engine) {
        guard let slot, cleared.insert(slot).inserted else { return }
        allowedIPCount -= engine.allowedIPs.count(of: slot) - lost[slot, default: 0]
    }
}
