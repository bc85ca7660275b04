// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO
public import WireGuardCore

/// A running WireGuard device: the protocol engine between a TUN device and UDP sockets.
///
/// The device follows its interface: when the interface comes up it binds its sockets and starts to work, when the interface
/// goes down all sessions end, and when the interface is deleted the device closes. It is configured while it runs, through
/// ``apply(_:)`` or the UAPI socket (``serveUAPI(on:)``).
///
/// It has lanes, threads that move packets, and a control thread for everything else. ``Options/layout`` sets the number of
/// lanes; packets of a flow stay in order with each layout.
public final class WireGuardDevice: Sendable {
    /// The options of a device.
    public struct Options: Sendable {
        /// The budget that determines all sizes; `nil` for none, with the defaults of ``limits`` and ``lane``.
        public let budget: MemoryBudget?
        /// The limits of memory and of work for unknown hosts. By default they follow from the budget.
        public var limits: EngineLimits
        /// The layout of the threads. The budget and the queues of the device limit the number of lanes.
        public var layout: LaneLayout
        /// The batch sizes of each lane. By default they follow from the budget.
        public var lane: LaneConfiguration
        /// The source of keys, indices, nonces and jitter. It must be cryptographically secure outside tests.
        public var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
        /// Receives the device's messages, which never contain a secret. Called on the device's threads and with its locks
        /// held, so it must not call the device.
        public var log: @Sendable (LogLevel, String) -> Void = { _, _ in }

        /// Options sized from a budget, or the defaults, sized for a server with memory to spare.
        /// - Parameter dataPath: The threads, and the sizes of each lane if they differ from the budget's.
        public init(budget: MemoryBudget? = nil, dataPath: DataPathOptions = DataPathOptions()) {
            self.budget = budget
            limits = budget?.limits ?? EngineLimits()
            layout = dataPath.layout
            lane = dataPath.configuration(within: budget?.lane)
        }
    }

    /// Returns the limits. Unless it was set, the number of concurrent handshakes without a session is one per
    /// processor, at most four.
    private static func limits(_ options: Options) -> EngineLimits {
        var limits = options.limits
        let standard = EngineLimits().handshakesPerSecond
        if limits.handshakesPerSecond == standard {
            limits.handshakesPerSecond = standard * min(ProcessorCount.forLanes(), 4)
        }
        return limits
    }

    /// The severity of a log message.
    public enum LogLevel: Int, Sendable, Comparable {
        /// An operation failed.
        case error
        /// Messages for developers.
        case verbose

        /// More detail is greater.
        public static func < (a: LogLevel, b: LogLevel) -> Bool { a.rawValue < b.rawValue }
    }

    /// The reason that a device closed.
    public enum CloseReason: Hashable, Sendable {
        /// ``close()`` was called.
        case requested
        /// The interface was deleted.
        case interfaceRemoved
        /// The management socket was deleted.
        case managementSocketRemoved
        /// An error that the device cannot recover from.
        case failed(TunnelIOError)
    }

    struct State {
        var isStarted = false
        var closeReason: CloseReason?
        /// The configured binding. Port 0 lets the system choose the port.
        var binding = DatagramBinding()
        /// A pair of sockets for each receiving lane; empty if no sockets are bound.
        var sockets: [DatagramSockets] = []
        /// The error of the last attempt to bind sockets, and the time of the first such error; `nil` if the device has
        /// sockets or its interface is down.
        var bindFailure: (error: WireGuardDeviceError, since: WallTime)?
        /// Binds sockets again. Set while the interface is up and has none.
        var bindTimer: EventLoop.Timer?
        var linkIsUp = false
        var servers: [UAPIServer] = []
        /// The drops of sockets that are closed now.
        var socketDrops = DatagramReceiveDrops()
    }

    let tun: any TunDevice
    let network: any DatagramNetwork
    let transport: DeviceTransport
    let lanes: LaneGroup
    /// Runs link events and the UAPI.
    package let control: EventLoop
    let log: @Sendable (LogLevel, String) -> Void
    let management: ManagementLimits
    /// Held during a change of the configuration, so that changes do not overlap.
    let operations = Mutex<State>(State())
    private let closed: ClosedSignal
    private let laneFailure = LaneFailureRelay()
    private let cameUp = Mutex<(@Sendable () -> Void)?>(nil)

    /// A device between `tun` and sockets of `network`. It owns `tun` from now on.
    /// - Throws: `WireGuardDeviceError` when memory or the system's event queue is refused.
    public init(
        tun: any TunDevice, network: any DatagramNetwork, options: Options = Options()
    ) throws(WireGuardDeviceError) {
        self.tun = tun
        self.network = network
        log = options.log
        management = options.budget?.management ?? ManagementLimits()
        do throws(TunnelIOError) {
            let mtu = try tun.currentMTU()
            transport = DeviceTransport(
                engine: Engine(random: options.random(), limits: Self.limits(options)), mtu: mtu,
                batchCapacity: options.lane.largestBatch)
            let relay = laneFailure
            let layout = options.layout.limited(to: options.budget?.lanes ?? LaneLayout.mostLanes)
            let (count, wanted) = (layout.queueCount, options.layout.queueCount)
            if count < wanted {
                options.log(.error, "using \(count) instead of \(wanted) lanes: the memory budget has no room for more")
            }
            lanes = try LaneGroup(
                device: tun, transport: transport, layout: layout, configuration: options.lane
            ) { error in
                relay.handler.withLock { $0 }?(error)
            }
            if let warning = lanes.queueWarning { options.log(.error, warning) }
            control = try EventLoop()
        } catch {
            throw WireGuardDeviceError(error)
        }
        closed = ClosedSignal()
    }

    // MARK: Life

    /// Starts the threads and follows the interface from its present state on.
    public func start() throws(WireGuardDeviceError) {
        let mayStart = operations.withLock { state in
            guard !state.isStarted, state.closeReason == nil else { return false }
            state.isStarted = true
            return true
        }
        guard mayStart else { throw WireGuardDeviceError(.closed) }
        do throws(TunnelIOError) {
            laneFailure.handler.withLock {
                $0 = { [weak self] error in
                    self?.closeLater(error.code.isRemoval ? .interfaceRemoved : .failed(error))
                }
            }
            try lanes.start(name: "culvert-lane")
            if let descriptor = tun.linkReadiness {
                _ = try control.register(descriptor, for: .readable) { [weak self] _ in
                    self?.handleLinkEvents()
                }
            }
            if let routes = try RouteMonitor.make() {
                _ = try control.register(routes.readiness, for: .readable) { [weak self] _ in
                    if routes.drain() { self?.forgetEndpointSources() }
                }
            }
            let bindTimer = control.makeTimer { [weak self] in self?.bindAgain() }
            operations.withLock { $0.bindTimer = bindTimer }
            // Read this before the watch reports changes. Changes that happen meanwhile are queued, and correct this
            // value in their order.
            let link = try tun.currentLinkState()
            follow(.mtu(link.mtu))
            follow(link.isUp ? .up : .down)
            try control.startThread(name: "culvert-control")
        } catch {
            // The interface may have been deleted meanwhile. Then the device has already closed itself, and this error
            // is only a consequence.
            let hasEnded = closeReason != nil
            close(.failed(error))
            throw hasEnded ? WireGuardDeviceError(.closed) : WireGuardDeviceError(error)
        }
    }

    deinit { close(.requested) }

    /// Ends everything: sessions, sockets, threads, management sockets and the TUN device. It may be called repeatedly.
    ///
    /// It returns when everything has ended, even if another thread started the close. On the device's own threads it
    /// does not wait.
    public func close() {
        close(.requested)
        guard !control.isOnLoopThread, !lanes.isOnLaneThread else { return }
        _ = closed.wait()
    }

    /// The reason that the device closed, or `nil` before that.
    public var closeReason: CloseReason? { operations.withLock { $0.closeReason } }

    /// Waits until the device has closed.
    public func waitUntilClosed() -> CloseReason {
        closed.wait()
    }

    /// Calls `handler` once when the device has closed, or immediately if it has.
    public func onClose(_ handler: @escaping @Sendable (CloseReason) -> Void) {
        closed.whenClosed(handler)
    }

    /// Calls `handler` on a thread of the device each time the interface has come up. The sessions ended when it went
    /// down.
    package func onUp(_ handler: @escaping @Sendable () -> Void) {
        cameUp.withLock { $0 = handler }
    }

    /// Calls `handler` on a thread of the device each time a peer was moved to another endpoint, because an authenticated
    /// packet came from there.
    package func onRoaming(_ handler: @escaping @Sendable () -> Void) {
        transport.onRoaming(handler)
    }

    /// Closes the device later, on another thread, because the close must wait for the calling thread.
    func closeLater(_ reason: CloseReason) {
        do throws(TunnelIOError) {
            _ = try LoopThread(name: "culvert-close") { self.close(reason) }
        } catch {
            log(.error, "cannot close in the background: \(error)")
        }
    }

    private func close(_ reason: CloseReason) {
        let (isFirst, servers, sockets) = operations.withLock { state -> (Bool, [UAPIServer], [DatagramSockets]) in
            guard state.closeReason == nil else { return (false, [], []) }
            state.closeReason = reason
            defer {
                for sockets in state.sockets { state.socketDrops.add(sockets) }
                state.servers = []
                state.sockets = []
            }
            return (true, state.servers, state.sockets)
        }
        guard isFirst else { return }
        log(.verbose, "closing: \(reason)")
        lanes.stop()
        // Stop the loop first, so that its objects are closed while no handler runs.
        control.stop()
        if !control.isOnLoopThread {
            do throws(TunnelIOError) { try control.join() } catch { log(.error, "control thread: \(error)") }
        }
        for server in servers { server.close() }
        for sockets in sockets { sockets.close() }
        tun.close()
        transport.withEngine { engine in
            engine.setUp(false, at: SystemTime.now(), wall: SystemTime.wall())
            engine.removeAllPeers()
            engine.setPrivateKey(nil)
        }
        closed.signal(reason)
    }

    // MARK: The interface

    private func handleLinkEvents() {
        for event in tun.drainLinkEvents() { follow(event) }
    }

    func follow(_ event: LinkEvent) {
        switch event {
        case .up:
            log(.verbose, "interface up")
            comeUp()
        case .down:
            log(.verbose, "interface down")
            bringDown()
        case .mtu(let bytes):
            log(.verbose, "interface MTU \(bytes)")
            transport.setMTU(bytes)
        case .removed:
            log(.verbose, "interface removed")
            closeLater(.interfaceRemoved)
        }
    }

    /// The time in nanoseconds between two attempts to bind sockets.
    private static let bindInterval = LaneClock.nanosecondsPerSecond

    /// Binds sockets and starts to work. If the port is taken, tries again until the interface goes down.
    private func comeUp() {
        let known = operations.withLock { $0.bindFailure?.error }
        do throws(WireGuardDeviceError) {
            try bringUp()
            cameUp.withLock { $0 }?()
        } catch {
            log(error == known ? .verbose : .error, "cannot come up, will retry: \(error)")
        }
    }

    private func bindAgain() {
        if operations.withLock({ $0.closeReason == nil && $0.linkIsUp && $0.sockets.isEmpty }) { comeUp() }
    }

    /// The reason that the device has no sockets although its interface is up, and the time since which; `nil` if it has
    /// sockets. The device tries to bind them once a second.
    package var listenFailure: (error: WireGuardDeviceError, since: WallTime)? {
        operations.withLock { $0.bindFailure }
    }

    private func bringUp() throws(WireGuardDeviceError) {
        try operations.withLock { (state) throws(WireGuardDeviceError) in
            guard state.closeReason == nil else { return }
            state.linkIsUp = true
            if state.sockets.isEmpty { try bind(state.binding, &state) }
            transport.withEngine { $0.setUp(true, at: SystemTime.now(), wall: SystemTime.wall()) }
            lanes.setDeviceEnabled(true)
            lanes.wake()
        }
    }

    private func bringDown() {
        operations.withLock { state in
            state.linkIsUp = false
            state.bindFailure = nil
            lanes.setDeviceEnabled(false)
            transport.withEngine { $0.setUp(false, at: SystemTime.now(), wall: SystemTime.wall()) }
            guard !state.sockets.isEmpty else { return }
            lanes.replaceSockets([])
            closeSockets(&state)
        }
    }

    // MARK: Sockets

    /// Closes the present sockets, and adds their drops to the totals.
    private func closeSockets(_ state: inout State) {
        for sockets in state.sockets {
            state.socketDrops.add(sockets)
            sockets.close()
        }
        state.sockets = []
    }

    /// Binds new sockets and passes them to the lanes.
    ///
    /// A failure changes nothing, with one exception: if the new sockets use the port of the old ones, the old ones are
    /// closed first. A device without sockets tries again after a second.
    func bind(_ binding: DatagramBinding, _ state: inout State) throws(WireGuardDeviceError) {
        do throws(TunnelIOError) {
            let old = state.sockets
            if let first = old.first, binding.port != 0, first.port == binding.port {
                lanes.replaceSockets([])
                closeSockets(&state)
            }
            let sockets = try network.bind(binding, count: lanes.socketCount)
            lanes.replaceSockets(sockets)
            closeSockets(&state)
            state.sockets = sockets
            state.bindFailure = nil
            log(.verbose, "UDP port \(sockets.first?.port ?? 0)")
            if let warning = lanes.socketWarning(sockets) { log(.error, warning) }
        } catch {
            let failure = WireGuardDeviceError(error)
            if state.sockets.isEmpty {
                state.bindFailure = (failure, state.bindFailure?.since ?? SystemTime.wall())
                if let timer = state.bindTimer {
                    control.set(timer, deadline: LaneClock.now() + Self.bindInterval)
                }
            }
            throw failure
        }
        forgetEndpointSources()
    }

    /// Binds new sockets on the present port, or on a new one if the system chose it: after sleep or a change of network.
    /// Sessions continue.
    public func rebind() throws(WireGuardDeviceError) {
        try operations.withLock { (state) throws(WireGuardDeviceError) in
            guard state.closeReason == nil else { throw WireGuardDeviceError(.closed) }
            guard state.linkIsUp else { return }
            try bind(state.binding, &state)
        }
    }

    private func forgetEndpointSources() {
        transport.withEngine { $0.forgetEndpointSources() }
    }
}

extension TunnelIOError.Code {
    var isRemoval: Bool {
        if case .deviceRemoved = self { return true }
        return false
    }
}

/// Passes a lane's failure to the device, which did not exist when the lane was created.
private final class LaneFailureRelay: Sendable {
    let handler = Mutex<(@Sendable (TunnelIOError) -> Void)?>(nil)
}
