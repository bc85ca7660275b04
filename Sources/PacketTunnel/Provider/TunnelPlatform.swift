// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import TunnelIO

/// What a platform does for a tunnel. All else of a host is the same everywhere, and ``TunnelRunner`` does it.
///
/// Calls come one after the other, with one exception: when ``apply(_:)`` does not return, its task is cancelled, and
/// ``tearDown(leavingBlocked:)`` may come while it still runs. Each call has a deadline; what does not return by then is
/// left to itself, and the next start waits for it.
public protocol TunnelPlatform: AnyObject, Sendable {
    /// Makes ready for a tunnel: undoes what a crash left behind and, under a policy that holds from the start
    /// (``LeakPolicy/everything``), puts the leak guard in place. A guard that was left in place stays.
    func prepare(_ policy: LeakPolicy) async throws(TunnelError)

    /// Brings settings, which are valid, into force instead of those before: as a whole or not at all.
    /// - Returns: the tunnel's interface; the same object each time.
    func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice

    /// Undoes everything, except for the leak guard where `leavingBlocked` says so. Does nothing where nothing is to be
    /// undone. The packet flow, and with it the interface, is closed by then.
    func tearDown(leavingBlocked: Bool) async

    /// The mark that the provider's own sockets need to get past the tunnel's routes and leak guard; nil where they need
    /// none. It is known once ``prepare(_:)`` has returned.
    var socketMark: UInt32? { get }

    /// The name servers of the network outside of the tunnel, as of now, the preferred one first; none where that is not
    /// known.
    func outsideNameServers() async -> [IPAddress]
}

/// How long the parts of a tunnel's life may take.
public struct TunnelDeadlines: Hashable, Sendable {
    /// From the start to its success.
    public var start: Duration
    /// For a start that was given up to return, and the provider's stop.
    public var stop: Duration
    /// For the host to bring settings into force.
    public var settings: Duration
    /// For the host to undo everything.
    public var tearDown: Duration
    /// For the provider to get ready for sleep.
    public var sleep: Duration

    /// Deadlines.
    public init(
        start: Duration = .seconds(60), stop: Duration = .seconds(10), settings: Duration = .seconds(10),
        tearDown: Duration = .seconds(10), sleep: Duration = .seconds(5)
    ) {
        self.start = start
        self.stop = stop
        self.settings = settings
        self.tearDown = tearDown
        self.sleep = sleep
    }
}
