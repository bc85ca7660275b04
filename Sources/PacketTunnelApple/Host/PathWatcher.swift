// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Network
import PacketTunnel
import Synchronization
import TunnelSystem

/// Follows the network path outside the tunnel.
final class PathWatcher: Sendable {
    private struct State {
        var last: NWPath?
        var reported: NetworkPath?
        var handler: (@Sendable (NetworkPath) -> Void)?
        var hasUpdate = false
        /// The callers that wait for the first update.
        var waiters: [OneShot<Void>] = []

        /// Records a path of the system, and returns the path to report; `nil` if nothing outside the tunnel has
        /// changed.
        mutating func change(to path: NWPath, without ownInterface: String?) -> NetworkPath? {
            let before = last
            last = path
            // The system may report the same path again.
            guard before != path else { return nil }
            var visible = NetworkPath(path, without: ownInterface)
            if let before, let reported {
                visible.unnamedChanges = reported.unnamedChanges
                if visible == reported {
                    // The only difference is that the tunnel's own interface was added or removed.
                    guard path.has(ownInterface) == before.has(ownInterface) else { return nil }
                    // The system compares more than it reports, so this is another network on the same interface.
                    visible.unnamedChanges += 1
                }
            }
            reported = visible
            return visible
        }
    }

    private let monitor = NWPathMonitor()
    private let queue = DispatchQueue(label: "culvert.path")
    private let state = Mutex(State())
    /// The name of the tunnel's own interface, which does not count as a network.
    private let ownInterface: @Sendable () -> String?

    init(ownInterface: @escaping @Sendable () -> String? = { nil }) {
        self.ownInterface = ownInterface
    }

    deinit { monitor.cancel() }

    /// Waits for the first update, for one caller; `nil` after that update.
    ///
    /// Before the first update a monitor's `currentPath` is unsatisfied on every network: see `NWPath(nil)` in
    /// `stdlib/public/Darwin/Network/NWPath.swift` of Apple's Swift.
    var firstUpdate: OneShot<Void>? {
        state.withLock { state in
            if state.hasUpdate { return nil }
            let waiter = OneShot<Void>()
            state.waiters.append(waiter)
            return waiter
        }
    }

    /// Calls `handler` with the first path soon, and then after each change.
    func start(_ handler: @escaping @Sendable (NetworkPath) -> Void) {
        state.withLock { $0.handler = handler }
        monitor.pathUpdateHandler = { [weak self] path in self?.update(path) }
        monitor.start(queue: queue)
    }

    /// Stops calling the handler.
    func stop() {
        monitor.cancel()
        state.withLock { $0.handler = nil }
        endWaits()
    }

    private func update(_ path: NWPath) {
        let name = ownInterface()
        let (handler, change) = state.withLock { ($0.handler, $0.change(to: path, without: name)) }
        if let change { handler?(change) }
        // End the waits after the handler call, so that a waiting start finds the path.
        endWaits()
    }

    private func endWaits() {
        let waiters = state.withLock { state in
            state.hasUpdate = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.finish(()) }
    }
}

extension NWPath {
    fileprivate func has(_ interface: String?) -> Bool { availableInterfaces.contains { $0.name == interface } }
}

extension NetworkPath {
    /// Converts the system's path. The result has no Wi-Fi name and no name servers, because an extension does not get
    /// them.
    init(_ path: NWPath, without ownInterface: String? = nil) {
        let status: Status =
            switch path.status {
            case .satisfied: .satisfied
            case .requiresConnection: .requiresConnection
            case .unsatisfied: .unsatisfied
            @unknown default: .requiresConnection
            }
        self.init(
            status: status,
            interfaces: path.availableInterfaces.filter { $0.name != ownInterface }.map(Interface.init),
            supportsIPv4: path.supportsIPv4, supportsIPv6: path.supportsIPv6, isExpensive: path.isExpensive,
            isConstrained: path.isConstrained)
    }
}

extension NetworkPath.Interface {
    fileprivate init(_ interface: NWInterface) {
        let kind: NetworkPath.InterfaceKind =
            switch interface.type {
            case .wifi: .wifi
            case .cellular: .cellular
            case .wiredEthernet: .ethernet
            case .loopback: .loopback
            case .other: .other
            @unknown default: .other
            }
        self.init(name: interface.name, kind: kind, index: UInt32(clamping: interface.index))
    }
}
