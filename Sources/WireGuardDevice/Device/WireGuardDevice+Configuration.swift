// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO
public import WireGuardCore

/// Configuration and inspection of a device, running or not.
extension WireGuardDevice {
    /// Applies a whole update, or nothing of it.
    ///
    /// The parts that can fail, a new port or mark, come first. Sessions continue unless the update itself ends them.
    /// - Throws: `.io` with the bind error if the port is not available, `.beyondBudget` if there would be more peers or
    ///   allowed IPs than the budget permits, `.closed` after ``close()``.
    public func apply(_ update: UAPIDeviceUpdate) throws(WireGuardDeviceError) {
        try operations.withLock { (state) throws(WireGuardDeviceError) in
            guard state.closeReason == nil else { throw WireGuardDeviceError(.closed) }
            do throws(EngineLimitError) {
                try transport.withEngine { (engine) throws(EngineLimitError) in try engine.checkLimits(of: update) }
            } catch {
                throw WireGuardDeviceError(error)
            }
            let binding = state.binding.updated(by: update)
            if state.linkIsUp {
                try adoptSockets(binding, isNamed: update.listenPort != nil || update.fwMark != nil, &state)
            }
            state.binding = binding
            transport.withEngine { $0.apply(update, at: SystemTime.now(), wall: SystemTime.wall()) }
            if state.linkIsUp {
                // The start may have failed for its port; the new port can work.
                transport.withEngine { $0.setUp(true, at: SystemTime.now(), wall: SystemTime.wall()) }
                lanes.setDeviceEnabled(true)
            }
        }
        // There may be something to send, or an earlier deadline.
        lanes.wake()
    }

    /// Makes the sockets match a binding.
    /// - Parameter isNamed: whether the update is about them; where it is not, an earlier failure is tried again, but
    ///   does not keep the rest of the update from taking effect.
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
        // Open sockets can change their mark. If the update names the port that the system chose, they have it already.
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

    /// The state as the UAPI reports it, keys included.
    ///
    /// All of it belongs to one configuration; counters change meanwhile.
    public var uapiState: UAPIDeviceState {
        operations.withLock { device in
            var state = UAPIDeviceState()
            state.privateKey = transport.withEngine { $0.privateKey }
            state.listenPort = device.sockets.first?.port ?? device.binding.port
            state.fwMark = device.binding.mark
            forEachPeer { state.peers.append(UAPIPeerState($0)) }
            return state
        }
    }

    /// Peers and allowed IPs that are read while the engine is held: traffic does not wait for all of them.
    private static let snapshotWork = 256

    /// The caller must prevent changes of the configuration meanwhile.
    private func forEachPeer(_ body: (PeerSnapshot) -> Void) {
        var place: Int? = 0
        while let start = place {
            let piece = transport.withEngine { $0.snapshots(from: start, work: Self.snapshotWork) }
            for peer in piece.peers { body(peer) }
            place = piece.next
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

    /// The UDP port that is bound; `nil` while none is.
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

    /// The threads' layout: the resolved one, never `LaneLayout.automatic`.
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
