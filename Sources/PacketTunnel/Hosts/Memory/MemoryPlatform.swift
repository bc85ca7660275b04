// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
public import TunnelIO

/// A platform that keeps settings in memory and fails when a test asks for it.
///
/// It changes nothing on the machine, needs no privileges, and shows the settings that would be in effect.
public final class MemoryPlatform: TunnelPlatform {
    /// The behaviour of a step of the platform.
    public enum Behaviour: Sendable {
        /// It succeeds.
        case succeed
        /// It succeeds after a time on the platform's clock.
        case succeedAfter(Duration)
        /// It fails. ``MemoryPlatform/tearDown(leavingBlocked:)`` cannot fail, and succeeds.
        case fail(TunnelError)
        /// It does not return before its task is cancelled.
        case hang
        /// It returns only after ``MemoryPlatform/releaseAll()``, even if its task is cancelled.
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
    /// Notifies the readers of ``deliveries`` that packets may be available.
    let arrivals = Broadcast<Void>(())
    private let state = Mutex(State())

    /// Creates a platform without settings.
    public init(clock: any Clock<Duration> = ContinuousClock()) {
        script = PlatformScript(clock: clock)
    }

    // MARK: - Settings of a test

    /// Sets the behaviour of ``prepare(_:)``.
    public func setPrepare(_ behaviour: Behaviour) { script.set(.prepare, behaviour) }

    /// Sets the behaviour of ``apply(_:)``.
    public func setApply(_ behaviour: Behaviour) { script.set(.apply, behaviour) }

    /// Sets the behaviour of ``tearDown(leavingBlocked:)``.
    public func setTearDown(_ behaviour: Behaviour) { script.set(.tearDown, behaviour) }

    /// Lets every step that hangs return.
    public func releaseAll() { script.releaseAll() }

    /// Sends the packets that leave the tunnel to `network`, now and after each start.
    public func connect(to network: VirtualNetwork) {
        let device = state.withLock { state in
            (state.network, state.peer) = (network, nil)
            return state.device
        }
        device?.connect(to: network)
    }

    /// Connects two platforms: each reads the packets that the other's packet flow writes, now and after each start.
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

    // MARK: - View of a test

    /// The settings in effect, or `nil` if there are none.
    public var settings: TunnelSettings? { state.withLock { $0.settings } }

    /// All applied settings, the first ones first.
    public var history: [TunnelSettings] { state.withLock { $0.history } }

    /// The policy of the leak guard that is in place; `nil` while there is none.
    public var guardPolicy: LeakPolicy? { state.withLock { $0.guardPolicy } }

    /// The number of completed tear-downs.
    public var tearDownCount: Int { state.withLock { $0.tearDownCount } }

    /// The number of steps that hang now.
    public var hangingCount: Int { script.hangingCount }

    /// The tunnel's interface; nil without settings.
    package var device: MemoryTun? { state.withLock { $0.device } }

    /// Sends a packet into the tunnel, like a program of this machine.
    /// - Returns: `false` if it was dropped: there are no settings, or there is no room.
    @discardableResult
    public func inject(_ packet: [UInt8]) -> Bool { device?.inject(packet) ?? false }

    /// Returns and removes the packets that left the tunnel without a destination, oldest first.
    public func takeDelivered() -> [[UInt8]] { device?.takeDelivered() ?? [] }

    /// Sets the handler for available packets of ``takeDelivered()``, now and after each start.
    package func setDeliveryHandler(_ handler: (@Sendable () -> Void)?) {
        state.withLock { $0.deliveryHandler = handler }
        wire()
    }

    // MARK: - The platform

    /// The mark that a test has set, or `nil`: a tunnel in memory needs no mark to route sockets around it.
    public var socketMark: UInt32? { state.withLock { $0.socketMark } }

    /// Sets the mark that providers find, as on a host that routes their sockets around the tunnel by a mark.
    package func setSocketMark(_ mark: UInt32?) { state.withLock { $0.socketMark = mark } }

    /// None.
    public func outsideNameServers() async -> [IPAddress] { [] }

    /// Installs a leak guard if the policy requires one before the start.
    public func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try await script.play(.prepare)
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        if policy.holdsBeforeSettings { state.withLock { $0.guardPolicy = policy } }
    }

    /// Remembers the settings, and makes an interface the first time.
    public func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        try await script.play(.apply)
        // The caller no longer waits, and may already have undone the settings.
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        let mtu = settings.effectiveMTU()
        let device: MemoryTun
        do throws(TunnelIOError) {
            // A tunnel that ended may have closed its interface before the tear-down.
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

    /// Removes the settings and the interface, and also the guard unless it must stay.
    public func tearDown(leavingBlocked: Bool) async {
        do throws(TunnelError) {
            try await script.play(.tearDown)
        } catch {
            // A tear-down cannot fail.
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
