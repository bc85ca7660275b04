// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Moves packets between a TUN device and UDP sockets through a transport, on a separate thread.
///
/// The thread waits for the device, the sockets and the transport's deadline, and processes each batch to the end: read,
/// seal, send; receive, open, deliver. It allocates all memory in `init`. The owner of the device and the sockets closes
/// them, only after the lane was stopped or has replaced them.
public final class Lane: Sendable {
    private enum State {
        case created
        case running(LoopThread)
        case stopped(LoopThread?)
    }

    let core: LaneCore
    private let state = Mutex(State.created)

    /// Creates a lane that is not running.
    ///
    /// - Parameters:
    ///   - device: the source and the destination of packets.
    ///   - sockets: the source and the destination of datagrams; `nil` for none yet.
    ///   - transport: seals and opens. It is called on the lane's thread.
    ///   - configuration: batch sizes.
    ///   - onFailure: called at most once, on the lane's thread, if the device was removed or the system fails. The lane then
    ///     stops itself.
    /// - Throws: `.outOfMemory` or `.eventLoop`.
    public init(
        device: any TunDevice, sockets: DatagramSockets?, transport: any TunnelTransport,
        configuration: LaneConfiguration = LaneConfiguration(),
        onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        core = try LaneCore(
            device: device, sockets: sockets, transport: transport, configuration: configuration, onFailure: onFailure)
    }

    /// Creates one of the lanes of a group, without sockets.
    init(
        device: any TunDevice, transport: any TunnelTransport, configuration: LaneConfiguration, role: LaneRole,
        duties: LaneDuties?, onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        core = try LaneCore(
            device: device, sockets: nil, transport: transport, configuration: configuration, role: role,
            duties: duties, onFailure: onFailure)
    }

    deinit {
        stop()
    }

    var role: LaneRole { core.role }
    var duties: LaneDuties { core.duties }
    var loop: EventLoop { core.loop }

    /// Starts the thread. Has no effect if the lane is running.
    /// - Throws: `.eventLoop` if the device or a socket cannot be watched, `.closed` after ``stop()``.
    public func start(name: String = "lane") throws(TunnelIOError) {
        try state.withLock { (state) throws(TunnelIOError) in
            switch state {
            case .running: return
            case .stopped: throw TunnelIOError(.closed)
            case .created: break
            }
            try core.watch()
            let core = core
            state = .running(try LoopThread(name: name) { core.run() })
        }
    }

    /// Stops the lane and waits until its thread has ended. Does not wait on the lane's own thread. You can call it more than
    /// once.
    public func stop() {
        let thread = state.withLock { state -> LoopThread? in
            switch state {
            case .created: state = .stopped(nil)
            case .running(let thread): state = .stopped(thread)
            case .stopped: break
            }
            guard case .stopped(let thread) = state else { return nil }
            return thread
        }
        core.loop.stop()
        thread?.join()
    }

    /// Makes the lane end, without waiting for it.
    func requestStop() {
        core.loop.stop()
    }

    /// Whether the calling thread is the lane's thread.
    public var isOnLaneThread: Bool { core.loop.isOnLoopThread }

    /// Makes the lane ask its transport for datagrams to send and for its next deadline. Any thread may call it.
    public func wake() {
        core.loop.wake()
    }

    /// Sets whether the lane reads packets from the device and waits for them; it does at first. A device that is down
    /// does not need it.
    public func setDeviceEnabled(_ isEnabled: Bool) {
        let core = core
        onLane(waits: false) { core.setDeviceEnabled(isEnabled) }
    }

    /// Replaces the sockets; `nil` for none. When it returns, the lane no longer uses the old sockets, and you can close
    /// them.
    ///
    /// You can call it from any thread that holds no lock of the transport.
    public func replaceSockets(_ sockets: DatagramSockets?) {
        replaceSockets(sockets, receives: true, waits: true)
    }

    /// - Parameters:
    ///   - receives: whether the lane receives from these sockets and sends through them, or only sends.
    ///   - waits: whether to wait until the lane has replaced the sockets.
    func replaceSockets(_ sockets: DatagramSockets?, receives: Bool, waits: Bool) {
        let core = core
        onLane(waits: waits) { core.replaceSockets(sockets, receives: receives) }
    }

    /// The packets moved and dropped so far. Safe to read from any thread; while the lane runs, the numbers may belong to
    /// slightly different times.
    public var statistics: LaneStatistics { core.statistics }

    /// Runs `body` on the lane's thread, or immediately on the calling thread if the lane is not running.
    private func onLane(waits: Bool, _ body: @escaping @Sendable () -> Void) {
        if core.loop.isOnLoopThread { return body() }
        let thread = state.withLock { state -> LoopThread? in
            switch state {
            case .running(let thread): return thread
            case .stopped(let thread?): return thread
            case .created, .stopped(nil):
                body()
                return nil
            }
        }
        guard let thread else { return }
        let latch = Latch()
        let isQueued = core.loop.perform {
            body()
            latch.open()
        }
        guard isQueued else {
            // The loop has ended. After its thread has ended too, only the lock protects the state.
            thread.join()
            return state.withLock { _ in body() }
        }
        if waits { latch.wait() }
    }
}
