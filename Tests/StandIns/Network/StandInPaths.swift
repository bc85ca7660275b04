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
    }

    private static let state = State()

    /// What monitors see.
    public static var current: NWPath { state.lock.sync { state.path } }

    /// How many monitors run.
    public static var monitorCount: Int { state.lock.sync { state.monitors.count } }

    /// Sets what is called when a monitor has gone.
    public static func setRemovalHandler(_ handler: (@Sendable () -> Void)?) {
        state.lock.sync { state.onRemoval = handler }
    }

    /// Changes it, and tells every monitor.
    public static func change(to path: NWPath) {
        let monitors = state.lock.sync { () -> [NWPathMonitor] in
            state.path = path
            return Array(state.monitors.values)
        }
        for monitor in monitors { monitor.deliver(path) }
    }

    static func add(_ monitor: NWPathMonitor) {
        state.lock.sync { state.monitors[ObjectIdentifier(monitor)] = monitor }
    }

    static func remove(_ monitor: NWPathMonitor) {
        let handler = state.lock.sync { () -> (@Sendable () -> Void)? in
            state.monitors[ObjectIdentifier(monitor)] = nil
            return state.onRemoval
        }
        handler?()
    }
}
