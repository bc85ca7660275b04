// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The state of a lane's thread. The lane's lock protects it before the thread starts and after it has ended.
final class LaneCore: @unchecked Sendable {
    /// One descriptor of the lane.
    struct Watch {
        var registration: EventLoop.Registration?
        /// The number of consecutive events of the descriptor that brought no data.
        var fruitless = 0
        var isParked = false
    }

    let loop: EventLoop
    let role: LaneRole
    let duties: LaneDuties
    let statistics = Mutex(LaneStatistics())

    let device: any TunDevice
    let transport: any TunnelTransport
    let configuration: LaneConfiguration
    private let onFailure: @Sendable (TunnelIOError) -> Void
    private var hasFailed = false

    let packets: PacketBatch
    let outgoing: PacketBatch
    let incoming: PacketBatch
    /// The batches that workers help to process; `nil` without workers, or if the transport has no steps.
    let pipelines: Pipelines?
    /// The lane thread's own copy, published after each batch.
    var counts = LaneStatistics()
    /// The datagrams that replaced sockets dropped before they reached a batch.
    private(set) var droppedByFormerSockets = 0

    private var isWatching = false
    private var isReceiving = true
    private var isDeviceEnabled = true
    private var deviceWatch = Watch()
    private(set) var v4: (any DatagramSocket)?
    private(set) var v6: (any DatagramSocket)?
    private var v4Watch = Watch()
    private var v6Watch = Watch()

    /// The use of the batches' pages; see `LaneCore+Pages`.
    var pageUse = PageUse()

    private var deadlineTimer: EventLoop.Timer?
    private var retryTimer: EventLoop.Timer?
    private var deadline: Int64?
    /// A deadline that stays in the past is ignored until this time.
    private var notBefore = Int64.min

    /// A descriptor that is reported this often without data is ignored for ``retryInterval``.
    private static let fruitlessLimit = 16
    private static let retryInterval: Int64 = 100_000_000
    private static let pastDeadlineInterval: Int64 = 1_000_000
    /// The most calls of the transport's `drain` before the descriptors are served.
    private static let drainLimit = 64

    init(
        device: any TunDevice, sockets: DatagramSockets?, transport: any TunnelTransport,
        configuration: LaneConfiguration, role: LaneRole = .all, duties: LaneDuties? = nil,
        workers: BatchWorkers? = nil, onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        self.device = device
        self.role = role
        self.transport = transport
        let configuration = configuration.workable
        self.configuration = configuration
        self.onFailure = onFailure
        v4 = sockets?.v4
        v6 = sockets?.v6
        configuration.limitQueues(of: sockets)
        loop = try EventLoop()
        self.duties = duties ?? LaneDuties(loop: loop)
        pipelines =
            if let workers { try Self.pipelines(workers, for: role, transport, configuration) } else { nil }
        // A region that a lane does not use has one page.
        let reads = role.contains(.outbound) && pipelines == nil
        let sends = reads || role.contains(.duties)
        let receives = role.contains(.inbound) && pipelines == nil
        packets = try PacketBatch(
            packetCapacity: reads ? configuration.packetCount : 1, byteCapacity: reads ? configuration.packetBytes : 1)
        outgoing = try PacketBatch(
            packetCapacity: sends ? configuration.packetCount : 1,
            byteCapacity: sends ? configuration.outgoingBytes : 1)
        incoming = try PacketBatch(
            packetCapacity: receives ? configuration.datagramCount : 1,
            byteCapacity: receives ? configuration.incomingBytes : 1)
    }

    // MARK: - Life

    /// Watches everything, so that the loop can run.
    func watch() throws(TunnelIOError) {
        do throws(TunnelIOError) {
            deviceWatch = Watch()
            if role.contains(.outbound) {
                deviceWatch.registration = try loop.register(device.readiness, for: deviceInterest) {
                    [weak self] readiness in
                    self?.deviceReady(readiness)
                }
            }
            try watchSockets()
        } catch {
            unwatchSockets()
            if let registration = deviceWatch.registration { loop.unregister(registration) }
            throw error
        }
        deadlineTimer = loop.makeTimer { [weak self] in self?.deadlineReached() }
        retryTimer = loop.makeTimer { [weak self] in self?.unpark() }
        preparePageReturn()
        loop.afterEachRound { [weak self] in self?.endRound() }
        isWatching = true
        // The transport may have something already.
        loop.wake()
    }

    /// The body of the lane's thread.
    func run() {
        do throws(TunnelIOError) {
            try loop.run()
        } catch {
            fail(error)
        }
    }

    func fail(_ error: TunnelIOError) {
        guard !hasFailed else { return }
        hasFailed = true
        loop.stop()
        onFailure(error)
    }

    // MARK: - Device and sockets

    func setDeviceEnabled(_ isEnabled: Bool) {
        isDeviceEnabled = isEnabled
        deviceWatch.fruitless = 0
        deviceWatch.isParked = false
        watchDevice()
    }

    /// The events to wait for. A device may end while the lane does not read from it; if this process cannot see the
    /// interface, only the descriptor reports the end.
    private var deviceInterest: EventLoop.Interest {
        deviceWatch.isParked ? [] : isDeviceEnabled ? .readable : .end
    }

    private func watchDevice() {
        guard let registration = deviceWatch.registration else { return }
        do throws(TunnelIOError) {
            try loop.modify(registration, interest: deviceInterest)
        } catch {
            fail(error)
        }
    }

    /// - Parameter receives: whether the lane receives from these sockets and sends through them, or only sends.
    func replaceSockets(_ sockets: DatagramSockets?, receives: Bool = true) {
        unwatchSockets()
        if isReceiving, role.contains(.inbound) { droppedByFormerSockets &+= droppedBySockets }
        isReceiving = receives
        v4 = sockets?.v4
        v6 = sockets?.v6
        configuration.limitQueues(of: sockets)
        guard isWatching, !loop.isStopped else { return }
        do throws(TunnelIOError) {
            try watchSockets()
        } catch {
            fail(error)
        }
    }

    private func watchSockets() throws(TunnelIOError) {
        guard isReceiving, role.contains(.inbound) else { return }
        if let v4 {
            v4Watch.registration = try loop.register(v4.readiness) { [weak self] readiness in
                guard let self else { return }
                self.socketReady(self.v4, readiness, watch: \.v4Watch)
            }
        }
        if let v6 {
            v6Watch.registration = try loop.register(v6.readiness) { [weak self] readiness in
                guard let self else { return }
                self.socketReady(self.v6, readiness, watch: \.v6Watch)
            }
        }
    }

    private func unwatchSockets() {
        for watch in [v4Watch, v6Watch] {
            if let registration = watch.registration { loop.unregister(registration) }
        }
        v4Watch = Watch()
        v6Watch = Watch()
    }

    private func socketReady(
        _ socket: (any DatagramSocket)?, _ readiness: EventLoop.Readiness,
        watch: ReferenceWritableKeyPath<LaneCore, Watch>
    ) {
        guard let socket else { return }
        do throws(TunnelIOError) {
            let moved = try moveFromNetwork(socket)
            drain()
            // A readable socket without data is normal: the system may have dropped the datagram (a wrong checksum).
            // Only a hang-up or a permanent error is a reason to stop listening.
            let isTrouble = !readiness.isDisjoint(with: [.hangup, .error])
            recordProgress(moved: moved, isTrouble: isTrouble, watch: watch)
        } catch {
            guard error.code == .closed else { return park(watch) }
            // The socket is closed, so another file may already have its descriptor number.
            if let registration = self[keyPath: watch].registration { loop.unregister(registration) }
            self[keyPath: watch] = Watch()
        }
    }

    private func deviceReady(_ readiness: EventLoop.Readiness) {
        do throws(TunnelIOError) {
            let moved = try moveFromDevice()
            drain()
            recordProgress(moved: moved, isTrouble: true, watch: \.deviceWatch)
        } catch {
            fail(error)
        }
    }

    // MARK: - Descriptors that would keep the loop spinning

    private func recordProgress(moved: Int, isTrouble: Bool, watch: ReferenceWritableKeyPath<LaneCore, Watch>) {
        guard moved == 0, isTrouble else {
            if self[keyPath: watch].fruitless != 0 { self[keyPath: watch].fruitless = 0 }
            return
        }
        self[keyPath: watch].fruitless += 1
        if self[keyPath: watch].fruitless >= Self.fruitlessLimit { park(watch) }
    }

    private func park(_ watch: ReferenceWritableKeyPath<LaneCore, Watch>) {
        self[keyPath: watch].fruitless = 0
        self[keyPath: watch].isParked = true
        // `modify` fails if the descriptor was closed; there is then nothing to wait for.
        if let registration = self[keyPath: watch].registration { try? loop.modify(registration, interest: []) }
        if let retryTimer { loop.set(retryTimer, deadline: LaneClock.now() + Self.retryInterval) }
    }

    private func unpark() {
        if deviceWatch.isParked {
            deviceWatch.isParked = false
            watchDevice()
        }
        for watch in [\LaneCore.v4Watch, \LaneCore.v6Watch] where self[keyPath: watch].isParked {
            self[keyPath: watch].isParked = false
            if let registration = self[keyPath: watch].registration {
                try? loop.modify(registration, interest: .readable)
            }
        }
    }

    // MARK: - Deadlines and waiting datagrams of the transport

    private func deadlineReached() {
        deadline = nil
        transport.deadlineReached()
        notBefore = LaneClock.now() + Self.pastDeadlineInterval
    }

    private func endRound() {
        if isDeviceEnabled, role.contains(.outbound), device.hasBufferedPackets {
            // No descriptor becomes readable for packets that the device has already buffered.
            deviceReady(.readable)
            if device.hasBufferedPackets { loop.wake() }
        }
        defer { noticePageUse() }
        guard role.contains(.duties) else { return duties.notice(transport) }
        drain()
        duties.willArm()
        let next = transport.nextDeadline.map { max($0, notBefore) }
        duties.didArm(next)
        guard next != deadline, let deadlineTimer else { return }
        deadline = next
        loop.set(deadlineTimer, deadline: next)
    }

    /// Sends the responses to some datagrams of a batch before the batch is finished.
    func answer() {
        guard role.contains(.duties) else { return duties.notice(transport) }
        drain()
    }

    private func drain() {
        guard role.contains(.duties) else { return }
        var hasMore = true
        var turns = 0
        while hasMore, turns < Self.drainLimit, !loop.isStopped {
            outgoing.removeAll()
            hasMore = transport.drain(into: outgoing)
            turns += 1
            guard !outgoing.isEmpty else { continue }
            send(outgoing)
            publish()
        }
        // Called even if nothing was written or the lane was stopped in between: other lanes may be waiting for it.
        transport.drainEnded()
        if hasMore { loop.wake() }
    }
}
