// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
public import TunnelIO
public import WireGuardCore

/// Configuration and inspection of a device, running or not.
extension WireGuardDevice {
    /// Applies an update, completely or not at all.
    ///
    /// The parts that can fail, a new port or mark, are applied first. Sessions continue unless the update itself ends
    /// them; an update that replaces the peers ends those of removed peers, and of peers whose pre-shared key or own key
    /// changes. Packets wait while an update of up to 1,000 peers and allowed IPs, together, is applied, about a
    /// millisecond. They flow while a larger one is applied. A larger one that replaces the peers routes packets as
    /// before until all its peers are added, and by its own table from then on. Other changes, and readers of the whole
    /// configuration, wait.
    /// - Throws: `.io` with the bind error if the port is not available, `.beyondBudget` if there would be more peers
    ///   or allowed IPs than the budget permits, `.closed` after ``close()``.
    public func apply(_ update: UAPIDeviceUpdate) throws(WireGuardDeviceError) {
        try apply(update, betweenPieces: {})
    }

    /// The number of peers, and of changes of allowed IPs, that are checked or applied per lock of the engine, so that
    /// traffic does not wait for all of them. Small updates, and peers that lose and get allowed IPs, are applied as a
    /// whole.
    package static let updateWork = 128

    /// Lets the threads that wait for the engine's lock run. Where locks are unfair, as on Apple's systems, a thread that
    /// takes the lock again immediately after its release can prevent all other threads from taking it.
    private static func letOthersLock() { sched_yield() }

    /// - Parameter pause: Called after each piece of the update but the last, without the engine's lock.
    func apply(_ update: UAPIDeviceUpdate, betweenPieces pause: () -> Void) throws(WireGuardDeviceError) {
        try operations.withLock { (state) throws(WireGuardDeviceError) in
            guard state.closeReason == nil else { throw WireGuardDeviceError(.closed) }
            do throws(EngineLimitError) {
                var check = LimitCheck(of: update)
                while try transport.withEngine({ (engine) throws(EngineLimitError) in
                    try engine.checkLimits(of: update, &check, work: Self.updateWork)
                }) { Self.letOthersLock() }
            } catch {
                throw WireGuardDeviceError(error)
            }
            let binding = state.binding.updated(by: update)
            if state.linkIsUp {
                try adoptSockets(binding, isNamed: update.listenPort != nil || update.fwMark != nil, &state)
            }
            state.binding = binding
            var progress = UpdateProgress()
            while transport.withEngine({ engine in
                engine.apply(
                    update, &progress, work: Self.updateWork, at: SystemTime.now(), wall: SystemTime.wall())
            }) {
                progress.buildTable(of: update)
                Self.letOthersLock()
                pause()
            }
            if state.linkIsUp {
                // The start may have failed because of its port, and may succeed with the new one.
                transport.withEngine { $0.setUp(true, at: SystemTime.now(), wall: SystemTime.wall()) }
                lanes.setDeviceEnabled(true)
            }
        }
        // There may be packets to send, or an earlier deadline.
        lanes.wake()
    }

    /// Makes the sockets match a binding.
    /// - Parameter isNamed: Whether the update sets the port or the mark. If not, an earlier failure is retried, but
    ///   another failure does not prevent the rest of the update.
    private func adoptSockets(
        _ binding: DatagramBinding, isNamed: Bool, _ state: inout State
    ) throws(WireGuardDeviceError) {
        guard let bound = state.sockets.first?.port else {
            do throws(WireGuardDeviceError) {
                try bind(binding, &state)
            } catch {
                guard !isNamed else { throw error }
                log(.error, "still without sockets: \(error)")
            }
            return
        }
        // The mark of open sockets can be changed. If the update names the port that the system chose, the sockets
        // already have it.
        var present = state.binding
        present.mark = binding.mark
        if binding.port == bound { present.port = bound }
        if binding != present {
            try bind(binding, &state)
        } else if binding.mark != state.binding.mark {
            try setMark(binding.mark, on: state.sockets.flatMap(\.all), previous: state.binding.mark)
        }
    }

    private func setMark(
        _ mark: UInt32, on sockets: [any DatagramSocket], previous: UInt32
    ) throws(WireGuardDeviceError) {
        do throws(TunnelIOError) {
            for socket in sockets { try socket.setMark(mark) }
        } catch {
            for socket in sockets {
                do throws(TunnelIOError) { try socket.setMark(previous) } catch {
                    log(.error, "cannot restore the mark: \(error)")
                }
            }
            throw WireGuardDeviceError(error)
        }
        transport.withEngine { $0.forgetEndpointSources() }
    }

    /// The state in the form of the UAPI, including keys.
    ///
    /// All of it belongs to one configuration, but counters may change while it is read.
    public var uapiState: UAPIDeviceState {
        operations.withLock { device in
            var state = UAPIDeviceState()
            let (privateKey, peerCount) = transport.withEngine { ($0.privateKey, $0.peerCount) }
            state.privateKey = privateKey
            state.peers.reserveCapacity(peerCount)
            state.listenPort = device.sockets.first?.port ?? device.binding.port
            state.fwMark = device.binding.mark
            forEachPeer { state.peers.append(UAPIPeerState($0)) }
            return state
        }
    }

    /// The number of peers and allowed IPs that are read per lock of the engine, so that traffic does not wait for all
    /// of them.
    private static let snapshotWork = 256

    /// The caller must prevent changes of the configuration meanwhile.
    private func forEachPeer(_ body: (PeerSnapshot) -> Void) {
        var place: Int? = 0
        while let start = place {
            let piece = transport.withEngine { $0.snapshots(from: start, work: Self.snapshotWork) }
            for peer in piece.peers { body(peer) }
            place = piece.next
            if place != nil { Self.letOthersLock() }
        }
    }

    /// Sets the private key, or clears it.
    public func setPrivateKey(_ key: PrivateKey?) throws(WireGuardDeviceError) {
        var update = UAPIDeviceUpdate()
        update.privateKey = key.map { .set($0) } ?? .clear
        try apply(update)
    }

    /// This device's public key; `nil` while it has no private key.
    public var publicKey: PublicKey? { transport.withEngine { $0.publicKey } }

    /// The bound UDP port; `nil` if none is bound.
    public var listenPort: UInt16? { operations.withLock { $0.sockets.first?.port } }

    /// The state of a peer, or `nil` if there is no such peer.
    public func peer(_ key: PublicKey) -> PeerSnapshot? {
        transport.withEngine { $0.snapshot(of: key) }
    }

    /// All peers.
    public var peers: [PeerSnapshot] {
        operations.withLock { _ in
            var result: [PeerSnapshot] = []
            forEachPeer { result.append($0) }
            return result
        }
    }

    /// The counters of the protocol engine.
    public var engineStatistics: EngineStatistics { transport.withEngine { $0.statistics } }

    /// The items that wait inside the engine: packets for a session, and handshake messages to send.
    package var queueDepths: (packets: Int, messages: Int) { transport.withEngine { $0.queueDepths } }

    /// The sum of all lanes' counters: batches, packets and bytes in each direction, and drops by cause.
    public var laneStatistics: LaneStatistics { lanes.statistics }

    /// The layout of the threads, resolved; never `LaneLayout.automatic`.
    public var layout: LaneLayout { lanes.layout }
}

extension DatagramBinding {
    /// The binding after an update of the configuration.
    fileprivate func updated(by update: UAPIDeviceUpdate) -> DatagramBinding {
        var binding = self
        if let port = update.listenPort { binding.port = port }
        if let mark = update.fwMark { binding.mark = mark }
        return binding
    }
}
