// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The lanes of one tunnel, used as one.
///
/// It stops as a whole: when one lane fails, all end, and the failure is reported once.
public final class LaneGroup: Sendable {
    /// The layout in use; ``LaneLayout/automatic`` is replaced by its result.
    public let layout: LaneLayout
    /// The number of socket pairs that ``replaceSockets(_:)`` can use.
    public let socketCount: Int

    private let lanes: [Lane]
    /// The queues of the device that were created for lanes. The owner closes the device itself.
    private let queues: [any TunDevice]
    private let failure: LaneFailure
    private let workers: BatchWorkers?

    /// Creates lanes that are not running, without sockets.
    ///
    /// - Parameters:
    ///   - device: the source and the destination of packets.
    ///   - transport: seals and opens. It is called on the threads of lanes and workers.
    ///   - layout: the distribution of work over threads.
    ///   - configuration: batch sizes of each lane.
    ///   - onFailure: called at most once, on a lane's thread, if the device was removed or the system fails. All lanes then
    ///     stop themselves.
    /// - Throws: `.outOfMemory` or `.eventLoop`; the errors of ``TunDevice/makeQueue()`` if the layout needs several queues.
    public init(
        device: any TunDevice, transport: any TunnelTransport, layout: LaneLayout = .automatic,
        configuration: LaneConfiguration = LaneConfiguration(),
        onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        let layout = layout.resolved(cores: ProcessorCount.forLanes())
        self.layout = layout
        socketCount = layout.socketCount
        let failure = LaneFailure(onFailure)
        self.failure = failure
        var devices = [device]
        var roles: [LaneRole] = [.all]
        var workers: BatchWorkers?
        switch layout {
        case .automatic, .single: break
        case .perDirection:
            devices = [device, device]
            roles = [[.outbound, .duties], .inbound]
        case .many(let count, let workerCount):
            roles += Array(repeating: [.outbound, .inbound], count: count - 1)
            if workerCount > 0 {
                // Each batch may be in the queue twice: once in progress, and once as an entry that its lane has already
                // processed.
                workers = BatchWorkers(count: workerCount, capacity: 4 * BatchPipeline.depth * count)
            }
        }
        var queues: [any TunDevice] = []
        var lanes: [Lane] = []
        do throws(TunnelIOError) {
            while devices.count < roles.count {
                let queue = try device.makeQueue()
                queues.append(queue)
                devices.append(queue)
            }
            for (device, role) in zip(devices, roles) {
                lanes.append(
                    try Lane(
                        device: device, transport: transport, configuration: configuration, role: role,
                        duties: lanes.first?.duties, workers: workers, onFailure: { failure.report($0) }))
            }
        } catch {
            for queue in queues { queue.close() }
            throw error
        }
        self.queues = queues
        self.lanes = lanes
        self.workers = workers
        failure.set(lanes)
    }

    deinit {
        stop()
    }

    /// Starts the threads. Their names are `name` plus the thread's work. You can call it more than once.
    /// - Throws: `.eventLoop` if a device or socket cannot be watched, `.closed` after ``stop()``. No lane runs then.
    public func start(name: String = "lane") throws(TunnelIOError) {
        do throws(TunnelIOError) {
            try workers?.start(name: name)
            for (index, lane) in lanes.enumerated() {
                try lane.start(name: lanes.count == 1 ? name : "\(name)-\(index)")
            }
        } catch {
            stop()
            throw error
        }
    }

    /// Stops all lanes, closes the queues that were created for them, and waits until their threads have ended. Does not wait
    /// on the thread of a lane. You can call it more than once.
    public func stop() {
        for lane in lanes { lane.requestStop() }
        // Lanes process the batches that workers have not started.
        workers?.requestStop()
        if !isOnLaneThread {
            for lane in lanes { lane.stop() }
            workers?.stop()
        }
        for queue in queues { queue.close() }
    }

    /// Whether the calling thread is that of one of the lanes.
    public var isOnLaneThread: Bool { lanes.contains { $0.isOnLaneThread } }

    /// Makes the lanes ask their transport for datagrams to send and for its next deadline. Any thread may call it.
    public func wake() {
        lanes.first?.wake()
    }

    /// Sets whether the lanes read packets from the device and wait for them; they do at first. A device that is down
    /// does not need it.
    public func setDeviceEnabled(_ isEnabled: Bool) {
        for lane in lanes { lane.setDeviceEnabled(isEnabled) }
    }

    /// Replaces the sockets, with a pair for each lane; an empty array for none. When it returns, the lanes no longer use the
    /// old sockets, and you can close them.
    ///
    /// If there are fewer pairs than ``socketCount``, the lanes without a pair send through the first one. You can call it
    /// from any thread that holds no lock of the transport. A call on a lane's thread does not wait for the other lanes.
    public func replaceSockets(_ sockets: [DatagramSockets]) {
        let waits = !isOnLaneThread
        let receivers = lanes.filter { $0.role.contains(.inbound) }
        for lane in lanes {
            let place = receivers.firstIndex { $0 === lane } ?? 0
            let isOwn = place < sockets.count
            lane.replaceSockets(isOwn ? sockets[place] : sockets.first, receives: isOwn, waits: waits)
        }
    }

    /// The packets moved and dropped so far by all lanes. Safe to read from any thread.
    public var statistics: LaneStatistics {
        var sum = LaneStatistics()
        for lane in lanes { sum.add(lane.statistics) }
        return sum
    }

    /// The packets moved and dropped so far by each lane.
    public var laneStatistics: [LaneStatistics] { lanes.map(\.statistics) }
}

/// Ends all lanes when one fails, and reports the first failure.
private final class LaneFailure: Sendable {
    private struct State {
        var loops: [EventLoop] = []
        var hasFailed = false
    }

    private let state = Mutex(State())
    private let onFailure: @Sendable (TunnelIOError) -> Void

    init(_ onFailure: @escaping @Sendable (TunnelIOError) -> Void) {
        self.onFailure = onFailure
    }

    func set(_ lanes: [Lane]) {
        state.withLock { $0.loops = lanes.map(\.loop) }
    }

    func report(_ error: TunnelIOError) {
        let loops = state.withLock { state -> [EventLoop]? in
            guard !state.hasFailed else { return nil }
            state.hasFailed = true
            return state.loops
        }
        guard let loops else { return }
        for loop in loops { loop.stop() }
        onFailure(error)
    }
}
