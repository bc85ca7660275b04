// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The position in an update that an engine applies in pieces.
///
/// An update of at most ``mostWhole`` peers and changes of allowed IPs is one piece, unless it sends many handshakes.
/// Packets wait while it is applied, for about a millisecond, and none is dropped.
package struct UpdateProgress: ~Copyable {
    /// The parts of a peer's changes, in their order.
    enum Step {
        case settings
        /// The removal of all allowed IPs.
        case removal
        case changes
    }

    /// The work of a handshake, in changes of allowed IPs. It is charged after a peer's changes if they made the engine
    /// send an initiation to the peer, because packets waited for an endpoint, for example.
    static let handshakeWork = 64
    /// The most peers, and changes of allowed IPs, of an update that is applied as a whole. Peers and allowed IPs that the
    /// update removes also count, but the allowed IPs of peers that it replaces do not.
    let mostWhole: Int

    /// Whether the key is set, which is the first change.
    var isPrepared = false
    /// The position in the list of the update's peers.
    private(set) var peer = 0
    var step = Step.settings
    /// The position in the list of that peer's changes of allowed IPs.
    var change = 0
    /// The state of an update that replaces the peers.
    var replacement = Replacement()
    /// The memory that the engine's tables no longer use.
    var retired: [RetiredMemory] = []

    /// The beginning of any update.
    package init(mostWhole: Int = 1_000) {
        self.mostWhole = mostWhole
    }

    // This empty deinit is necessary; see ``Engine``.
    deinit {}

    mutating func nextPeer() {
        (peer, step, change) = (peer + 1, .settings, 0)
    }

    /// Builds the table of allowed IPs of an update that replaces the peers, if the engine has applied all its other
    /// settings. Releases memory that the engine no longer uses.
    ///
    /// The owner calls this between the pieces without the engine's lock, because both take long for many peers. If it does
    /// not, the next piece builds the table.
    package mutating func buildTable(of update: UAPIDeviceUpdate) {
        retired = []
        guard replacement.awaitsTable else { return }
        replacement.buildTable(of: update)
    }
}

/// The state of an update that replaces the peers: the peers that stay or are new, and their allowed IPs.
struct Replacement: ~Copyable {
    /// The new table until it is in use, then the former one. The progress releases it, after the engine's lock.
    var allowedIPs = AllowedIPs()
    /// The most networks of the table.
    var mostAllowedIPs = Int.max
    /// Whether the update names the peer, by slot.
    private var named: ContiguousArray<Bool> = []
    /// The number of named peers.
    private(set) var namedCount = 0
    /// The slot of each peer of the update, in its order; -1 for a peer whose changes have no effect.
    private var slots: ContiguousArray<Int32> = []
    /// The number of changes of allowed IPs.
    private(set) var changeCount = 0
    /// Whether the table is all that is missing before the next piece.
    var awaitsTable = false
    private var isTableBuilt = false
    /// Whether the new table is in use.
    var isRouted = false
    /// The number of slots at the beginning of the engine's table in which peers without a name may be.
    var unchecked = 0

    // This empty deinit is necessary; see ``Engine``.
    deinit {}

    mutating func reserveCapacity(_ count: Int) {
        named.reserveCapacity(count)
        slots.reserveCapacity(count)
    }

    func isNamed(_ slot: Int32) -> Bool { Int(slot) < named.count && named[Int(slot)] }

    mutating func setNamed(_ slot: Int32, _ isNamed: Bool) {
        guard self.isNamed(slot) != isNamed else { return }
        if Int(slot) >= named.count {
            named.append(contentsOf: repeatElement(false, count: Int(slot) + 1 - named.count))
        }
        named[Int(slot)] = isNamed
        namedCount += isNamed ? 1 : -1
    }

    /// Records the slot of the next peer of the update.
    mutating func append(_ slot: Int32?, changes: Int) {
        slots.append(slot ?? -1)
        changeCount += changes
    }

    /// Builds the table, unless it is built.
    mutating func buildTable(of update: UAPIDeviceUpdate) {
        guard !isTableBuilt else { return }
        isTableBuilt = true
        for (peer, slot) in zip(update.peers, slots) where slot >= 0 {
            if peer.remove || peer.replaceAllowedIPs { allowedIPs.removeAll(of: slot) }
            guard !peer.remove else { continue }
            for change in peer.allowedIPs {
                switch change {
                case .add(let prefix): allowedIPs.insert(prefix, peer: slot, atMost: mostAllowedIPs)
                case .remove(let prefix): allowedIPs.remove(prefix, peer: slot)
                }
            }
        }
        while allowedIPs.continueGrowth(changes: .max) {}
    }
}
