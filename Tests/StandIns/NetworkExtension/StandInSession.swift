// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The providers, as listed in the `Info.plist` of extensions on a device.
public enum StandInExtensions {
    private final class Table: @unchecked Sendable {
        let lock = NSLock()
        var makers: [String: @Sendable () -> Handed<NETunnelProvider>] = [:]
    }

    private static let table = Table()

    /// Makes known which provider an extension has.
    public static func install(_ bundleIdentifier: String, _ make: @escaping @Sendable () -> NETunnelProvider) {
        table.lock.withLock { table.makers[bundleIdentifier] = { Handed(value: make()) } }
    }

    static func makeProvider(_ bundleIdentifier: String) -> NETunnelProvider? {
        table.lock.withLock { table.makers[bundleIdentifier] }?().value
    }
}

/// The system's side of a VPN connection: it starts and stops the provider, in this process, and tells of the status.
public final class StandInSession: @unchecked Sendable {
    private let lock = NSLock()
    private let system = DispatchQueue(label: "session")
    private var current = NEVPNStatus.invalid
    private var connections: [() -> NEVPNConnection?] = []
    private var provider: NETunnelProvider?
    private var lastError: (any Error)?
    private var calls: [StandInCompletion] = []
    private var configuration: NETunnelProviderProtocol?
    private var canStart: () -> NEVPNError.Code? = { .configurationInvalid }
    private var heldStarts: [@Sendable () -> Void]?
    private var isHung = false
    private var callHandler: (@Sendable (String) -> Void)?

    init() {}

    // MARK: - The test's view and actions

    /// The packet tunnel's provider while there is one.
    public var runningProvider: NEPacketTunnelProvider? { running as? NEPacketTunnelProvider }

    /// The app proxy's provider while there is one.
    public var runningProxy: NEAppProxyProvider? { running as? NEAppProxyProvider }

    private var running: NETunnelProvider? { lock.withLock { provider } }

    /// The completion handlers that providers were given.
    public var completions: [StandInCompletion] { lock.withLock { calls } }

    /// Stops the tunnel with a reason of the system.
    public func stop(_ reason: NEProviderStopReason) {
        system.async { self.end(reason, error: nil) }
        report("stop")
    }

    /// Sets the handler of the app's calls. It gets the name of each call, after the call.
    public func setCallHandler(_ handler: (@Sendable (String) -> Void)?) { lock.withLock { callHandler = handler } }

    /// Lets starts wait until ``releaseStarts()``. "The tunnel connection process is started and this function returns
    /// immediately", says the header of `startTunnel(options:)`: a stop before the status changes finds nothing to stop.
    public func holdStarts() { lock.withLock { heldStarts = heldStarts ?? [] } }

    /// Starts what waited.
    public func releaseStarts() {
        let starts = lock.withLock { () -> [@Sendable () -> Void] in
            defer { heldStarts = nil }
            return heldStarts ?? []
        }
        for start in starts { system.async(execute: start) }
    }

    /// Posts the status again. The documentation of `NEVPNStatusDidChange` does not say that the status differs from the one of
    /// the notification before, and an observer reads it later than it changed.
    public func repeatStatus() { system.async { self.set(self.status) } }

    /// Lets the extension hang: it gets no message from here on, and stops only when the system ends it.
    public func hang() { lock.withLock { isHung = true } }

    /// Ends an extension that hangs, as the system does after a while.
    public func endHung() { system.async { self.down(nil) } }

    /// Starts it as on-demand rules do: without options.
    public func startOnDemand() { system.async { self.launch(nil) } }

    // MARK: - The framework's side

    var status: NEVPNStatus { lock.withLock { current } }

    func attach(_ connection: NEVPNConnection) {
        lock.withLock { connections.append { [weak connection] in connection } }
    }

    func setConfiguration(_ configuration: NETunnelProviderProtocol?, canStart: @escaping () -> NEVPNError.Code?) {
        lock.withLock { (self.configuration, self.canStart) = (configuration, canStart) }
        if configuration == nil { set(.invalid) } else if status == .invalid { set(.disconnected) }
    }

    private func set(_ status: NEVPNStatus) {
        let connections = lock.withLock { () -> [NEVPNConnection] in
            current = status
            return self.connections.compactMap { $0() }
        }
        for connection in connections {
            NotificationCenter.default.post(name: .NEVPNStatusDidChange, object: connection)
        }
    }

    func start(_ options: [String: NSObject]?) throws {
        if let problem = lock.withLock({ canStart })() { throw NEVPNError(problem) }
        let handed = Handed(value: options)
        let start: @Sendable () -> Void = { self.launch(handed.value) }
        let isHeld = lock.withLock { () -> Bool in
            guard heldStarts != nil else { return false }
            heldStarts?.append(start)
            return true
        }
        if !isHeld { system.async(execute: start) }
        report("start")
    }

    private func report(_ call: String) { lock.withLock { callHandler }?(call) }

    private func launch(_ options: [String: NSObject]?) {
        guard status == .disconnected, let configuration = lock.withLock({ configuration }) else { return }
        set(.connecting)
        guard let provider = StandInExtensions.makeProvider(configuration.providerBundleIdentifier ?? ""),
            let copy = configuration.copy() as? NEVPNProtocol
        else { return down(NEVPNError(.configurationInvalid)) }
        lock.withLock { (self.provider, lastError) = (provider, nil) }
        provider.standIn.protocolConfiguration = copy
        provider.standIn.setHandlers(
            cancel: { error in
                let handed = Handed(value: error)
                self.system.async { self.end(.none, error: handed.value) }
            },
            reasserting: { isOn in self.system.async { self.reassert(isOn) } })
        let call = note("startTunnel")
        let completion: @Sendable ((any Error)?) -> Void = { error in
            call.call()
            let handed = Handed(value: error)
            self.system.async { self.started(handed.value) }
        }
        (provider as? NEPacketTunnelProvider)?.startTunnel(options: options, completionHandler: completion)
        (provider as? NEAppProxyProvider)?.startProxy(options: options, completionHandler: completion)
    }

    private func started(_ error: (any Error)?) {
        guard status == .connecting else { return }
        guard let error else { return set(.connected) }
        set(.disconnecting)
        down(error)
    }

    private func reassert(_ isOn: Bool) {
        if isOn, status == .connected { set(.reasserting) }
        if !isOn, status == .reasserting { set(.connected) }
    }

    private func end(_ reason: NEProviderStopReason, error: (any Error)?) {
        guard [.connecting, .connected, .reasserting].contains(status), let provider = running else { return }
        set(.disconnecting)
        guard !lock.withLock({ isHung }) else { return }
        let (call, handed) = (note("stopTunnel"), Handed(value: error))
        let completion: @Sendable () -> Void = {
            call.call()
            self.system.async { self.down(handed.value) }
        }
        (provider as? NEPacketTunnelProvider)?.stopTunnel(with: reason, completionHandler: completion)
        (provider as? NEAppProxyProvider)?.stopProxy(with: reason, completionHandler: completion)
    }

    private func down(_ error: (any Error)?) {
        let provider = lock.withLock { () -> NETunnelProvider? in
            (lastError, isHung) = (error, false)
            defer { self.provider = nil }
            return self.provider
        }
        provider?.standIn.clearSettings()
        set(.disconnected)
    }

    func fetchLastError(_ handler: @escaping @Sendable ((any Error)?) -> Void) {
        let handed = Handed(value: lock.withLock { lastError })
        system.async { handler(handed.value) }
    }

    func send(_ data: Data, _ handler: (@Sendable (Data?) -> Void)?) throws {
        // "A block that handles the response", says the header: it promises no call without a response, as from a provider
        // that hangs, has ended, or was never started.
        defer { report("message") }
        system.async {
            guard let provider = self.running, !self.lock.withLock({ self.isHung }) else { return }
            guard let handler else { return provider.handleAppMessage(data) }
            let (call, id) = (self.note("handleAppMessage"), ObjectIdentifier(provider))
            provider.handleAppMessage(data) { reply in
                call.call()
                self.system.async { if self.running.map(ObjectIdentifier.init) == id { handler(reply) } }
            }
        }
    }

    private func note(_ name: String) -> StandInCompletion {
        let call = StandInCompletion(name)
        lock.withLock { calls.append(call) }
        return call
    }
}

extension NEVPNConnection {
    /// The system's side of this connection.
    public var standIn: StandInSession { session }
}
