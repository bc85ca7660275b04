// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The implementation of a tunnel protocol. The same provider runs in every host.
///
/// A host creates a provider for each start, and calls it in this order:
///
/// - ``start(_:context:)`` once. The host cancels its task if the tunnel is stopped meanwhile or the deadline passes;
///   it should then throw soon. If it throws, or the host cancels it, the host calls nothing else, so it must clean up
///   before it throws.
/// - After the start returned: ``sleep()``, ``wake()`` and ``pathChanged(_:)``, one at a time and in the order of
///   events. ``handleAppMessage(_:)``, which passes messages to the ``router``, may be called at any time from the
///   start on, also concurrently.
/// - ``stop(_:)`` once, after the start returned and after the last of the other calls has begun. Earlier calls may
///   still be running.
///
/// If a start returns although the host cancelled it, the host calls ``stop(_:)``, so that nothing leaks.
public protocol PacketTunnelProvider: AnyObject, Sendable {
    /// The settings that this provider needs to start. They contain no secrets, only their names (see
    /// ``ProviderContext/secret(_:)``).
    associatedtype Configuration: Codable & Sendable

    /// Creates a provider that has not started.
    init()

    /// Brings the tunnel up. It applies settings with ``ProviderContext/apply(_:)``, uses
    /// ``ProviderContext/packetFlow``, and returns once the tunnel has proved to work.
    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError)

    /// Ends the tunnel. Afterwards the host removes the settings and closes the packet flow.
    func stop(_ reason: StopReason) async

    /// Called when the device is about to sleep. The host waits for a few seconds at most.
    func sleep() async

    /// Called when the device woke up.
    func wake() async

    /// Called when the network path changed. The first path is in ``ProviderContext/path``. If there are several
    /// changes during a call, only the last one is reported.
    func pathChanged(_ path: NetworkPath) async

    /// The router that answers typed messages of the app. Register its handlers when the provider is created. They run
    /// from the start on, also concurrently, and must not retain the provider. The host sets the logger. ``stop(_:)``
    /// should close the router.
    var router: MessageRouter { get }

    /// Answers a message of the app, or returns `nil` for no answer, which the app can distinguish.
    func handleAppMessage(_ message: [UInt8]) async -> [UInt8]?
}

extension PacketTunnelProvider {
    /// Does nothing.
    public func sleep() async {}
    /// Does nothing.
    public func wake() async {}
    /// Does nothing.
    public func pathChanged(_ path: NetworkPath) async {}
    /// Returns a new router without handlers. A provider that answers typed messages declares a constant instead.
    public var router: MessageRouter { MessageRouter() }
    /// Returns the answer of the ``router``, or `nil` if the router has no handler and is not closed.
    public func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? {
        let router = router
        return router.isUnused ? nil : await router.respond(to: message)
    }
}
