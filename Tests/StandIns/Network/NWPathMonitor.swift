// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Dispatch

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/network/nwpathmonitor
// https://developer.apple.com/documentation/network/nwpath
// https://developer.apple.com/documentation/network/nwinterface

public struct NWInterface: Hashable, Sendable {
    public enum InterfaceType: Hashable, Sendable {
        case other
        case wifi
        case cellular
        case wiredEthernet
        case loopback
    }

    public let type: InterfaceType
    public let name: String
    public let index: Int

    /// For tests: the system makes them otherwise.
    public init(standIn name: String, type: InterfaceType, index: Int) {
        (self.name, self.type, self.index) = (name, type, index)
    }
}

public struct NWPath: Equatable, Sendable {
    public enum Status: Sendable {
        case satisfied
        case unsatisfied
        case requiresConnection
    }

    public let status: Status
    public let availableInterfaces: [NWInterface]
    public let isExpensive: Bool
    public let isConstrained: Bool
    public let supportsIPv4: Bool
    public let supportsIPv6: Bool
    public let supportsDNS: Bool
    /// A property that the system compares and does not show: two paths with the same
    /// properties may differ. `NWPath` is `Equatable` by the system's own comparison, not by its properties.
    private let network: Int

    public func usesInterfaceType(_ type: NWInterface.InterfaceType) -> Bool {
        availableInterfaces.contains { $0.type == type }
    }

    /// For tests: the system makes them otherwise.
    public init(
        standIn status: Status, interfaces: [NWInterface] = [], isExpensive: Bool = false,
        isConstrained: Bool = false, supportsIPv4: Bool = true, supportsIPv6: Bool = true, network: Int = 0
    ) {
        self.status = status
        self.network = network
        availableInterfaces = interfaces
        self.isExpensive = isExpensive
        self.isConstrained = isConstrained
        self.supportsIPv4 = supportsIPv4
        self.supportsIPv6 = supportsIPv6
        supportsDNS = true
    }
}

/// Reports the first path on its queue after the start, unless a test withholds it, and later ones when a test changes the path.
///
/// Until the first update `currentPath` is unsatisfied and has no interface: Apple's implementation initialises it with
/// `NWPath(nil)` and assigns it in the update handler alone.
/// https://github.com/swiftlang/swift/blob/41d9c2cc5929e7f5b862f9853d1182fbcc987b5d/stdlib/public/Darwin/Network/NWPath.swift
public final class NWPathMonitor: @unchecked Sendable {
    private let lock = DispatchQueue(label: "path monitor")
    private var handler: (@Sendable (NWPath) -> Void)?
    private var queue: DispatchQueue?
    private var path = NWPath(standIn: .unsatisfied, supportsIPv4: false, supportsIPv6: false)
    private var isCancelled = false

    public init() {}

    /// `nil` after ``cancel()``, for updates in flight too.
    public var pathUpdateHandler: (@Sendable (_ newPath: NWPath) -> Void)? {
        get { lock.sync { handler } }
        set { lock.sync { handler = newValue } }
    }

    public var currentPath: NWPath { lock.sync { path } }

    public func start(queue: DispatchQueue) {
        lock.sync { self.queue = queue }
        if let path = StandInPaths.add(self) { deliver(path) }
    }

    public func cancel() {
        lock.sync {
            isCancelled = true
            handler = nil
        }
        StandInPaths.remove(self)
    }

    func deliver(_ path: NWPath) {
        let queue = lock.sync { isCancelled ? nil : self.queue }
        queue?.async {
            self.lock.sync { self.path = path }
            self.pathUpdateHandler?(path)
        }
    }
}
