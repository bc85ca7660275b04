// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Dispatch

/// The way to the network that every monitor sees. A test changes it.
public enum StandInPaths {
    private final class State: @unchecked Sendable {
        let lock = DispatchQueue(label: "paths")
        var path = NWPath(standIn: .satisfied, interfaces: [NWInterface(standIn: "en0", type: .wifi, index: 4)])
        var monitors: [ObjectIdentifier: NWPathMonitor] = [:]
        var onRemoval: (@Sendable () -> Void)?
        var isWithheld = false
    }

    private static let state = State()

    /// The path that monitors report.
    public static var current: NWPath { state.lock.sync { state.path } }

    /// How many monitors run.
    public static var monitorCount: Int { state.lock.sync { state.monitors.count } }

    /// Sets the handler for the release of a monitor.
    public static func setRemovalHandler(_ handler: (@Sendable () -> Void)?) {
        state.lock.sync { state.onRemoval = handler }
    }

    /// Changes it, and tells every monitor.
    public static func change(to path: NWPath) {
        let monitors = state.lock.sync { () -> [NWPathMonitor] in
            state.path = path
            return state.isWithheld ? [] : Array(state.monitors.values)
        }
        for monitor in monitors { monitor.deliver(path) }
    }

    /// Withholds all updates, the first ones of new monitors included: the system takes its time.
    public static func withhold() { state.lock.sync { state.isWithheld = true } }

    /// Tells every monitor the path, and withholds no more.
    public static func release() {
        let (monitors, path) = state.lock.sync { () -> ([NWPathMonitor], NWPath) in
            state.isWithheld = false
            return (Array(state.monitors.values), state.path)
        }
        for monitor in monitors { monitor.deliver(path) }
    }

    /// Adds a monitor; returns its first path, or `nil` while updates are withheld.
    static func add(_ monitor: NWPathMonitor) -> NWPath? {
        state.lock.sync {
            state.monitors[ObjectIdentifier(monitor)] = monitor
            return state.isWithheld ? nil : state.path
        }
    }

    static func remove(_ monitor: NWPathMonitor) {
        let handler = state.lock.sync { () -> (@Sendable () -> Void)? in
            state.monitors[ObjectIdentifier(monitor)] = nil
            return state.onRemoval
        }
        handler?()
    }
}
