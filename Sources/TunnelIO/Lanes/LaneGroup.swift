// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The lanes of one tunnel, used as one.
///
/// It stops as a whole: when one lane fails, all end, and the failure is reported once.
public final class LaneGroup: Sendable {
    /// The layout in use: ``LaneLayout/automatic`` and ``LaneLayout/server`` are replaced by their results, and there are
    /// no more lanes than the device has queues.
    public let layout: LaneLayout
    /// The reason that ``layout`` has fewer lanes than requested, for the log; `nil` if it has all of them.
    public let queueWarning: String?

    let lanes: [Lane]
    /// The queues of the device that were created for lanes. The owner closes the device itself.
    private let queues: [any TunDevice]
    private let failure: LaneFailure

    /// Creates lanes that are not running, without sockets.
    ///
    /// If the device does not have the queues that the layout needs, there are as many lanes as queues. With one queue,
    /// the layout is ``LaneLayout/automatic``.
    /// - Parameters:
    ///   - device: the source and the destination of packets.
    ///   - transport: seals and opens. It is called on the threads of lanes.
    ///   - layout: the distribution of work over threads.
    ///   - configuration: batch sizes of each lane.
    ///   - onFailure: called at most once, on a lane's thread, if the device was removed or the system fails. All lanes then
    ///     stop themselves.
    /// - Throws: `.outOfMemory` or `.eventLoop`; `.deviceRemoved` or `.closed` if the layout needs several queues.
    public init(
        device: any TunDevice, transport: any TunnelTransport, layout: LaneLayout = .automatic,
        configuration: LaneConfiguration = LaneConfiguration(),
        onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        let failure = LaneFailure(onFailure)
        self.failure = failure
        let (queues, queueWarning) = try Self.makeQueues(of: device, for: layout)
        let layout = layout.limited(to: 1 + queues.count).resolved()
        self.layout = layout
        self.queueWarning = queueWarning
        var devices = [device] + queues
        var roles = [LaneRole.all] + Array(repeating: [.outbound, .inbound], count: queues.count)
        if layout == .perDirection { (devices, roles) = ([device, device], [[.outbound, .duties], .inbound]) }
        var lanes: [Lane] = []
        do throws(TunnelIOError) {
            for (device, role) in zip(devices, roles) {
                lanes.append(
                    try Lane(
                        device: device, transport: transport, configuration: configuration, role: role,
                        duties: lanes.first?.duties, onFailure: { failure.report($0) }))
            }
        } catch {
            for queue in queues { queue.close() }
            throw error
        }
        self.queues = queues
        self.lanes = lanes
        failure.set(lanes)
    }

    /// Makes the device's further queues.
    /// - Returns: The queues, and a warning if there are fewer than the layout needs.
    private static func makeQueues(
        of device: any TunDevice, for layout: LaneLayout
    ) throws(TunnelIOError) -> (queues: [any TunDevice], warning: String?) {
        let wanted = layout.queueCount
        var queues: [any TunDevice] = []
        while queues.count < wanted - 1 {
            do throws(TunnelIOError) {
                queues.append(try device.makeQueue())
            } catch {
                let cause: String
                switch error.code {
                case .deviceRemoved, .closed:
                    for queue in queues { queue.close() }
                    throw error
                case .unsupported: cause = "the TUN device has one queue; for more, create it with IFF_MULTI_QUEUE"
                default: cause = "\(error)"
                }
                return (queues, "using \(1 + queues.count) instead of \(wanted) lanes: \(cause)")
            }
        }
        return (queues, nil)
    }

    /// The number of socket pairs that ``replaceSockets(_:)`` can use.
    public var socketCount: Int { layout.queueCount }

    /// A warning for the log if there are fewer than ``socketCount`` pairs of sockets; otherwise `nil`.
    package func socketWarning(_ sockets: [DatagramSockets]) -> String? {
        guard sockets.count < socketCount else { return nil }
        let cause =
            sockets.last?.nextPairError.map { "\($0)" } ?? "the system does not let further sockets share the port"
        return "\(sockets.count) instead of \(socketCount) lanes receive: \(cause)"
    }

    deinit {
        stop()
    }

    /// Starts the threads. Their names are `name` plus the thread's work. You can call it more than once.
    /// - Throws: `.eventLoop` if a device or socket cannot be watched, `.closed` after ``stop()``. No lane runs then.
    public func start(name: String = "lane") throws(TunnelIOError) {
        do throws(TunnelIOError) {
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
        if !isOnLaneThread { for lane in lanes { lane.stop() } }
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
