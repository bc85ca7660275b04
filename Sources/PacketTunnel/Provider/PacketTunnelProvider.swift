// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A tunnel protocol. Written once, it runs in every host.
///
/// A host makes a provider for each start, and calls it in this order:
///
/// - ``start(_:context:)`` once. If it throws, or the host cancels it, nothing else is called, so it must not leave anything
///   behind when it throws. The host cancels its task if the tunnel is stopped meanwhile or its deadline passes: it should
///   then throw soon.
/// - After it returned, ``sleep()``, ``wake()`` and ``pathChanged(_:)``, one at a time and in the order of events, and
///   ``handleAppMessage(_:)``, which passes messages to the ``router``, at any time from the start on, concurrently too.
/// - ``stop(_:)`` once, after ``start(_:context:)`` returned and after the last call of the others; earlier calls may still
///   be running.
///
/// A start that returns although its tunnel was cancelled is followed by a stop, so that nothing leaks.
public protocol PacketTunnelProvider: AnyObject, Sendable {
    /// The settings that this provider needs to start. Secrets are not in it, only names of secrets
    /// (``ProviderContext/secret(_:)``).
    associatedtype Configuration: Codable & Sendable

    /// A provider that has not started.
    init()

    /// Brings the tunnel up: ``ProviderContext/apply(_:)`` settings, take ``ProviderContext/packetFlow``, and return once
    /// there is proof that the tunnel works.
    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError)

    /// Ends the tunnel. The host undoes the settings and closes the packet flow afterwards.
    func stop(_ reason: StopReason) async

    /// Called when the device is about to sleep. The host waits a few seconds at most.
    func sleep() async

    /// The device woke up.
    func wake() async

    /// The way to the network changed. The first path comes in ``ProviderContext/path``; of several changes while this is
    /// busy only the last one arrives.
    func pathChanged(_ path: NetworkPath) async

    /// Answers typed messages of the app. Register handlers where the provider is made. They run from the start on, also
    /// concurrently, and must not keep the provider. The host sets the logger; ``stop(_:)`` should close the router.
    var router: MessageRouter { get }

    /// Answers a message of the app; `nil` if there is no answer, which the app sees as such.
    func handleAppMessage(_ message: [UInt8]) async -> [UInt8]?
}

extension PacketTunnelProvider {
    /// Nothing.
    public func sleep() async {}
    /// Nothing.
    public func wake() async {}
    /// Nothing.
    public func pathChanged(_ path: NetworkPath) async {}
    /// Returns a new router without handlers. A provider that answers typed messages declares a constant instead.
    public var router: MessageRouter { MessageRouter() }
    /// The answer of the ``router``, or none if it has no handler and is not closed.
    public func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? {
        let router = router
        return router.isUnused ? nil : await router.respond(to: message)
    }
}
