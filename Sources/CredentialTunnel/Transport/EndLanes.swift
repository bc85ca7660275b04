// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import TunnelIO

/// The lanes and sockets of one end. The device and the sockets can be replaced while sessions continue.
final class EndLanes: Sendable {
    private struct State {
        var lanes: LaneGroup?
        var sockets: [DatagramSockets] = []
        var isStopped = false
        /// The statistics of the replaced lanes.
        var former = LaneStatistics()
        /// The drops of the sockets that were closed.
        var socketDrops = DatagramReceiveDrops()

        /// Closes sockets and adds their drops to the sum.
        mutating func close(_ sockets: [DatagramSockets]) {
            for sockets in sockets {
                socketDrops.add(sockets)
                sockets.close()
            }
        }
    }

    private let transport: any TunnelTransport
    private let network: any DatagramNetwork
    private let binding: DatagramBinding
    private let dataPath: DataPathOptions
    private let onFailure: @Sendable (TunnelIOError) -> Void
    // Held while lanes or sockets are replaced. A lane must never acquire this lock.
    private let state = Mutex(State())

    /// - Parameters:
    ///   - binding: The binding of the sockets; the system chooses a port instead of port 0.
    ///   - onFailure: Called on a lane's thread when the device was removed or a system call has failed.
    init(
        _ transport: any TunnelTransport, network: any DatagramNetwork, binding: DatagramBinding,
        dataPath: DataPathOptions,
        onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) {
        self.transport = transport
        self.network = network
        self.binding = binding
        self.dataPath = dataPath
        self.onFailure = onFailure
    }

    deinit { stop() }

    /// Carries packets of `device` from now on, instead of packets of the earlier device. Waits for threads.
    func run(on device: any TunDevice) throws(TunnelIOError) {
        try state.withLock { (state) throws(TunnelIOError) in
            guard !state.isStopped else { throw TunnelIOError(.closed) }
            stopLanes(&state)
            let lanes = try LaneGroup(
                device: device, transport: transport, layout: dataPath.layout,
                configuration: dataPath.configuration(), onFailure: onFailure)
            if state.sockets.isEmpty {
                state.sockets = try network.bind(binding, count: lanes.socketCount)
            }
            lanes.replaceSockets(state.sockets)
            try lanes.start(name: "culvert-login")
            state.lanes = lanes
        }
    }

    /// Binds new sockets. Call it after sleep or a change of network.
    ///
    /// On failure, the old sockets stay in use. With a fixed port, however, the old sockets are closed first, so that
    /// the new sockets can bind to the port; after a failure, there are no sockets until the next attempt.
    func rebind() throws(TunnelIOError) {
        try state.withLock { (state) throws(TunnelIOError) in
            guard let lanes = state.lanes, !state.isStopped else { throw TunnelIOError(.closed) }
            let old = state.sockets
            if binding.port != 0 {
                lanes.replaceSockets([])
                state.sockets = []
                state.close(old)
            }
            state.sockets = try network.bind(binding, count: lanes.socketCount)
            lanes.replaceSockets(state.sockets)
            if binding.port == 0 { state.close(old) }
        }
    }

    /// Wakes the lanes, to send waiting messages and check deadlines.
    func wake() {
        state.withLock { $0.lanes?.wake() }
    }

    /// Stops the lanes, sends waiting messages, and closes the sockets. Waits for threads. Safe to repeat.
    func stop() {
        state.withLock { state in
            guard !state.isStopped else { return }
            state.isStopped = true
            stopLanes(&state)
            sendFarewells(through: state.sockets.first)
            state.close(state.sockets)
            state.sockets = []
        }
    }

    private func stopLanes(_ state: inout State) {
        guard let lanes = state.lanes else { return }
        lanes.stop()
        state.former.add(lanes.statistics)
        state.lanes = nil
    }

    /// The maximum time for the waiting messages at the end, in nanoseconds.
    private static let farewellLimit = 2 * LaneClock.nanosecondsPerSecond

    /// Sends the waiting messages directly, because the lanes have ended.
    private func sendFarewells(through sockets: DatagramSockets?) {
        guard let sockets, transport.waitingWork.hasDatagrams, let batch = try? PacketBatch() else { return }
        let deadline = LaneClock.now() + Self.farewellLimit
        var hasMore = true
        while hasMore, LaneClock.now() < deadline {
            batch.removeAll()
            hasMore = transport.drain(into: batch)
            guard !batch.isEmpty else { return }
            for socket in sockets.all { _ = try? socket.send(batch, in: 0..<batch.count) }
        }
    }

    /// The bound port, or `nil` if none is bound.
    var boundPort: UInt16? { state.withLock { $0.sockets.first?.port } }

    /// Warnings for the log: fewer lanes, or fewer lanes that receive, than the layout requests.
    var warnings: [String] {
        state.withLock { state in
            [state.lanes?.queueWarning, state.lanes?.socketWarning(state.sockets)].compactMap(\.self)
        }
    }

    /// The traffic and drops.
    var statistics: LaneStatistics {
        state.withLock { state in
            var sum = state.former
            if let lanes = state.lanes { sum.add(lanes.statistics) }
            return sum
        }
    }

    /// The datagrams that the sockets dropped before a lane read them.
    var socketDrops: DatagramReceiveDrops {
        state.withLock { state in
            var drops = state.socketDrops
            for sockets in state.sockets { drops.add(sockets) }
            return drops
        }
    }
}
