// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
public import TunnelIO

/// A platform that keeps settings in memory, and fails where a test wants it to.
///
/// It changes nothing on the machine, needs no privileges, and shows what would be in force.
public final class MemoryPlatform: TunnelPlatform {
    /// How a step of the platform goes.
    public enum Behaviour: Sendable {
        /// It succeeds.
        case succeed
        /// It succeeds after a time on the platform's clock.
        case succeedAfter(Duration)
        /// It fails. Tearing down has no way to fail, and succeeds.
        case fail(TunnelError)
        /// It does not return before its task is cancelled.
        case hang
        /// It does not even care about that, and returns only with ``MemoryPlatform/releaseAll()``.
        case hangForever
    }

    private struct State {
        var device: MemoryTun?
        var settings: TunnelSettings?
        var guardPolicy: LeakPolicy?
        var history: [TunnelSettings] = []
        var tearDownCount = 0
        var network: VirtualNetwork?
        weak var peer: MemoryPlatform?
        var deliveryHandler: (@Sendable () -> Void)?
        var socketMark: UInt32?
    }

    private let script: PlatformScript
    /// Tells that there may be something for ``deliveries``.
    let arrivals = Broadcast<Void>(())
    private let state = Mutex(State())

    /// A platform with nothing in force.
    public init(clock: any Clock<Duration> = ContinuousClock()) {
        script = PlatformScript(clock: clock)
    }

    // MARK: - What a test sets

    /// How ``prepare(_:)`` goes from now on.
    public func setPrepare(_ behaviour: Behaviour) { script.set(.prepare, behaviour) }

    /// How ``apply(_:)`` goes from now on.
    public func setApply(_ behaviour: Behaviour) { script.set(.apply, behaviour) }

    /// How ``tearDown(leavingBlocked:)`` goes from now on.
    public func setTearDown(_ behaviour: Behaviour) { script.set(.tearDown, behaviour) }

    /// Lets everything return that hangs.
    public func releaseAll() { script.releaseAll() }

    /// Sends what the tunnel's system side is sent to `network`, now and after each start.
    public func connect(to network: VirtualNetwork) {
        let device = state.withLock { state in
            (state.network, state.peer) = (network, nil)
            return state.device
        }
        device?.connect(to: network)
    }

    /// Wires two platforms: what is written to the packet flow of one is read from the other's, now and after each start.
    public static func connect(_ one: MemoryPlatform, _ two: MemoryPlatform) {
        one.state.withLock { ($0.network, $0.peer) = (nil, two) }
        two.state.withLock { ($0.network, $0.peer) = (nil, one) }
        one.wire()
    }

    private func wire() {
        let (device, network, peer, handler) = state.withLock {
            ($0.device, $0.network, $0.peer, $0.deliveryHandler)
        }
        guard let device else { return }
        device.setQueueHandler { [arrivals] in
            arrivals.send(())
            handler?()
        }
        if let network { device.connect(to: network) }
        if let other = peer?.state.withLock({ $0.device }) { MemoryTun.connect(device, other) }
    }

    // MARK: - What a test sees

    /// The settings that are in force; nil while there are none.
    public var settings: TunnelSettings? { state.withLock { $0.settings } }

    /// All settings that were brought into force, the first ones first.
    public var history: [TunnelSettings] { state.withLock { $0.history } }

    /// The policy of the leak guard that is in place; nil while there is none.
    public var guardPolicy: LeakPolicy? { state.withLock { $0.guardPolicy } }

    /// How often everything was undone.
    public var tearDownCount: Int { state.withLock { $0.tearDownCount } }

    /// How many steps hang.
    public var hangingCount: Int { script.hangingCount }

    /// The tunnel's interface; nil without settings.
    package var device: MemoryTun? { state.withLock { $0.device } }

    /// Gives the tunnel a packet, as a program of this machine does that sends one.
    /// - Returns: false when it was dropped: no settings are in force, or there is no room.
    @discardableResult
    public func inject(_ packet: [UInt8]) -> Bool { device?.inject(packet) ?? false }

    /// What came out of the tunnel and went nowhere, oldest first.
    public func takeDelivered() -> [[UInt8]] { device?.takeDelivered() ?? [] }

    /// Sets what is called when there is something for ``takeDelivered()``, now and after each start.
    package func setDeliveryHandler(_ handler: (@Sendable () -> Void)?) {
        state.withLock { $0.deliveryHandler = handler }
        wire()
    }

    // MARK: - The platform

    /// None, unless a test has set one: sockets are not led around a tunnel in memory.
    public var socketMark: UInt32? { state.withLock { $0.socketMark } }

    /// Has providers find a mark, as on a host that leads their sockets around the tunnel by it.
    package func setSocketMark(_ mark: UInt32?) { state.withLock { $0.socketMark = mark } }

    /// None.
    public func outsideNameServers() async -> [IPAddress] { [] }

    /// Puts a leak guard in place where the policy wants one from the start.
    public func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try await script.play(.prepare)
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        if policy.holdsBeforeSettings { state.withLock { $0.guardPolicy = policy } }
    }

    /// Remembers the settings, and makes an interface the first time.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        try await script.play(.apply)
        // Nobody waits any more, and everything may be undone by now.
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        let mtu = settings.effectiveMTU()
        let device: MemoryTun
        do throws(TunnelIOError) {
            // A tunnel that ended has closed its interface, perhaps before its tear-down.
            if let present = state.withLock({ $0.device }), (try? present.currentName()) != nil {
                device = present
                try device.setMTU(mtu)
            } else {
                device = try MemoryTun(mtu: mtu, queueCapacity: 256, byteCapacity: 1 << 19)
            }
        } catch {
            throw TunnelError(.hostFailed, error.description)
        }
        state.withLock { state in
            state.device = device
            state.settings = settings
            state.history.append(settings)
            if !settings.leakPolicy.leavesDecisionToRoutes { state.guardPolicy = settings.leakPolicy }
        }
        wire()
        return device
    }

    /// Forgets settings and interface, and the guard where it need not stay.
    public func tearDown(leavingBlocked: Bool) async {
        do throws(TunnelError) {
            try await script.play(.tearDown)
        } catch {
            // There is no way to fail.
        }
        let device = state.withLock { state in
            defer { (state.device, state.settings) = (nil, nil) }
            if !leavingBlocked { state.guardPolicy = nil }
            state.tearDownCount += 1
            return state.device
        }
        device?.close()
    }
}
