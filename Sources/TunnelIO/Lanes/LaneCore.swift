// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The state of a lane's thread. The lane's lock protects it before the thread starts and after it has ended.
final class LaneCore: @unchecked Sendable {
    /// A descriptor of the lane.
    private enum Watched {
        case device
        case v4
        case v6
    }

    /// The state of one descriptor.
    struct Watch {
        var registration: EventLoop.Registration?
        /// The number of consecutive events of the descriptor that brought no data.
        var fruitless = 0
        var isParked = false
    }

    /// The sockets that count dropped datagrams for the lane's statistics.
    private struct Receivers {
        /// The sockets from which the lane receives.
        var sockets: DatagramSockets?
        /// The drops of the sockets before them.
        var former = DatagramReceiveDrops()

        var drops: DatagramReceiveDrops {
            var sum = former
            if let sockets { sum.add(sockets) }
            return sum
        }
    }

    let loop: EventLoop
    let role: LaneRole
    let duties: LaneDuties
    let counts = LaneCounts()

    let device: any TunDevice
    let transport: any TunnelTransport
    let configuration: LaneConfiguration
    private let onFailure: @Sendable (TunnelIOError) -> Void
    private var hasFailed = false

    let packets: PacketBatch
    let outgoing: PacketBatch
    let incoming: PacketBatch
    private let receivers: Mutex<Receivers>

    private var isWatching = false
    private(set) var isReceiving = true
    private var isDeviceEnabled = true
    private(set) var deviceWatch = Watch()
    private(set) var v4: (any DatagramSocket)?
    private(set) var v6: (any DatagramSocket)?
    private var v4Watch = Watch()
    private var v6Watch = Watch()

    /// The times of the last packets from each side.
    var lastFromDevice: Int64 = 0
    var lastFromNetwork: Int64 = 0
    /// The least time without packets, in nanoseconds, after which the next ones are read with one call. A lane otherwise
    /// reads until a source has no more, so that each message carries many packets. After a pause there is mostly one
    /// packet, such as a ping, which would wait for a call that finds nothing. Under load the pauses are shorter.
    static let pause: Int64 = 1_000_000
    /// Whether the system replied directly to the last single packet after a pause; see ``moveReplies(at:)``.
    var hasDirectReplies = true
    /// The most time, in nanoseconds, from the receipt of a packet to the device's event for a direct reply.
    var replyTime: Int64 = 100_000

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
        onFailure: @escaping @Sendable (TunnelIOError) -> Void
    ) throws(TunnelIOError) {
        self.device = device
        self.role = role
        self.transport = transport
        let configuration = configuration.workable
        self.configuration = configuration
        self.onFailure = onFailure
        v4 = sockets?.v4
        v6 = sockets?.v6
        receivers = Mutex(Receivers(sockets: role.contains(.inbound) ? sockets : nil))
        configuration.limitQueues(of: sockets)
        loop = try EventLoop()
        self.duties = duties ?? LaneDuties(loop: loop)
        // A region that a lane does not use has one page.
        let reads = role.contains(.outbound)
        let sends = reads || role.contains(.duties)
        let receives = role.contains(.inbound)
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
    ///
    /// The handlers do not own this object: they run in ``run()`` only, whose caller owns it. A weak reference would
    /// make every change of the object's reference count slower.
    func watch() throws(TunnelIOError) {
        do throws(TunnelIOError) {
            deviceWatch = Watch()
            if role.contains(.outbound) {
                deviceWatch.registration = try loop.register(device.readiness, for: deviceInterest) {
                    [unowned self] readiness in
                    deviceReady(readiness)
                }
            }
            try watchSockets()
        } catch {
            unwatchSockets()
            if let registration = deviceWatch.registration { loop.unregister(registration) }
            throw error
        }
        deadlineTimer = loop.makeTimer { [unowned self] in deadlineReached() }
        retryTimer = loop.makeTimer { [unowned self] in unpark() }
        preparePageReturn()
        isWatching = true
        // The transport may have something already.
        loop.wake()
    }

    /// The body of the lane's thread.
    func run() {
        do throws(TunnelIOError) {
            try loop.run { endRound() }
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

    /// The packets moved and dropped so far. Safe to read from any thread.
    var statistics: LaneStatistics {
        var statistics = counts.statistics
        // Lanes of one direction share the device and the sockets. Each count is that of one of them.
        if role.contains(.outbound) { statistics.malformedFromDevice = device.statistics.malformedFrames }
        let drops = receivers.withLock { $0.drops }
        statistics.droppedBySocket = drops.oversize &+ drops.overflowed
        return statistics
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
        isReceiving = receives
        receivers.withLock {
            $0.former = $0.drops
            $0.sockets = receives && role.contains(.inbound) ? sockets : nil
        }
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
            v4Watch.registration = try loop.register(v4.readiness) { [unowned self] readiness in
                socketReady(readiness, .v4)
            }
        }
        if let v6 {
            v6Watch.registration = try loop.register(v6.readiness) { [unowned self] readiness in
                socketReady(readiness, .v6)
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

    private func socketReady(_ readiness: EventLoop.Readiness, _ watched: Watched) {
        guard let socket = watched == .v4 ? v4 : v6 else { return }
        do throws(TunnelIOError) {
            let moved = try moveFromNetwork(socket)
            // A readable socket without data is normal: the system may have dropped the datagram (a wrong checksum).
            // Only a hang-up or a permanent error is a reason to stop listening.
            let isTrouble = !readiness.isDisjoint(with: [.hangup, .error])
            recordProgress(moved: moved, isTrouble: isTrouble, watched)
        } catch {
            guard error.code == .closed else { return park(watched) }
            // The socket is closed, so another file may already have its descriptor number.
            if let registration = self[watched].registration { loop.unregister(registration) }
            self[watched] = Watch()
        }
    }

    private func deviceReady(_ readiness: EventLoop.Readiness) {
        let now = LaneClock.now()
        if now &- lastFromNetwork < replyTime { hasDirectReplies = true }
        readDevice(at: now)
    }

    private func readDevice(at now: Int64) {
        do throws(TunnelIOError) {
            let moved = try moveFromDevice(at: now)
            recordProgress(moved: moved, isTrouble: true, .device)
        } catch {
            fail(error)
        }
    }

    /// Moves the packets with which the system has replied to a packet that was just delivered, such as a ping. They need
    /// not wait until the loop reports the device.
    ///
    /// The end that receives the answer to its own ping gives it to a program, and there is nothing to read. So a lane reads
    /// only if it found a reply the last time, or if the device has since reported a packet within ``replyTime``.
    func moveReplies(at now: Int64) {
        guard hasDirectReplies, role.contains(.outbound), isDeviceEnabled, !deviceWatch.isParked else { return }
        do throws(TunnelIOError) {
            // If the loop has already reported the device in this round, its handler finds nothing.
            hasDirectReplies = try moveFromDevice(at: now) > 0
            if hasDirectReplies { deviceWatch.fruitless = 0 }
        } catch {
            fail(error)
        }
    }

    // MARK: - Descriptors that would keep the loop spinning

    /// The state of a descriptor. Each batch needs it: a key path costs several times as much as this switch.
    private subscript(watched: Watched) -> Watch {
        get {
            switch watched {
            case .device: deviceWatch
            case .v4: v4Watch
            case .v6: v6Watch
            }
        }
        set {
            switch watched {
            case .device: deviceWatch = newValue
            case .v4: v4Watch = newValue
            case .v6: v6Watch = newValue
            }
        }
    }

    private func recordProgress(moved: Int, isTrouble: Bool, _ watched: Watched) {
        guard moved == 0, isTrouble else {
            if self[watched].fruitless != 0 { self[watched].fruitless = 0 }
            return
        }
        self[watched].fruitless += 1
        if self[watched].fruitless >= Self.fruitlessLimit { park(watched) }
    }

    private func park(_ watched: Watched) {
        self[watched].fruitless = 0
        self[watched].isParked = true
        // `modify` fails if the descriptor was closed; there is then nothing to wait for.
        if let registration = self[watched].registration { try? loop.modify(registration, interest: []) }
        if let retryTimer { loop.set(retryTimer, deadline: LaneClock.now() + Self.retryInterval) }
    }

    private func unpark() {
        if deviceWatch.isParked {
            deviceWatch.isParked = false
            watchDevice()
        }
        for watched in [Watched.v4, .v6] where self[watched].isParked {
            self[watched].isParked = false
            if let registration = self[watched].registration {
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
            readDevice(at: LaneClock.now())
            if device.hasBufferedPackets { loop.wake() }
        }
        defer { noticePageUse() }
        guard role.contains(.duties) else { return duties.notice(transport) }
        duties.willArm()
        var work = transport.waitingWork
        if work.hasDatagrams {
            // Without a deadline, each packet of another lane would wake this one during the drain.
            duties.didArm(work.deadline)
            drain()
            duties.willArm()
            work = transport.waitingWork
        }
        let next = work.deadline.map { max($0, notBefore) }
        duties.didArm(next)
        guard next != deadline, let deadlineTimer else { return }
        deadline = next
        loop.set(deadlineTimer, deadline: next)
    }

    /// Sends the responses to datagrams of a batch.
    func answer() {
        guard role.contains(.duties) else { return duties.notice(transport) }
        drain()
    }

    private func drain() {
        var hasMore = true
        var turns = 0
        while hasMore, turns < Self.drainLimit, !loop.isStopped {
            outgoing.removeAll()
            hasMore = transport.drain(into: outgoing)
            turns += 1
            guard !outgoing.isEmpty else { continue }
            send(outgoing)
        }
        // Called even if nothing was written or the lane was stopped in between: other lanes may be waiting for it.
        transport.drainEnded()
        if hasMore { loop.wake() }
    }
}
