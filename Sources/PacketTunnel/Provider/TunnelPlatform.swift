// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import TunnelIO

/// The operations of a platform for a tunnel. ``TunnelRunner`` implements the rest of a host, which is the same everywhere.
///
/// Calls are sequential, with one exception: if ``apply(_:)`` does not return, its task is cancelled, and
/// ``tearDown(leavingBlocked:)`` may be called while it still runs. Each call has a deadline; a call that does not return by
/// then is abandoned, and the next start waits for it.
public protocol TunnelPlatform: AnyObject, Sendable {
    /// Prepares for a tunnel: undoes the changes of a crash and, under a policy that holds from the start
    /// (``LeakPolicy/everything``), loads the leak guard. A guard that was left in place stays.
    func prepare(_ policy: LeakPolicy) async throws(TunnelError)

    /// Applies valid settings in place of the previous ones: as a whole or not at all.
    /// - Returns: The tunnel's interface; the same object each time.
    func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice

    /// Undoes everything, except the leak guard if `leavingBlocked`. Does nothing if there is nothing to undo. The packet
    /// flow, and with it the interface, is closed by then.
    func tearDown(leavingBlocked: Bool) async

    /// The mark that the provider's own sockets need to bypass the tunnel's routes and leak guard; `nil` if they need none.
    /// It is known after ``prepare(_:)`` has returned.
    var socketMark: UInt32? { get }

    /// Returns the present name servers of the network outside the tunnel, the preferred one first; empty if unknown.
    func outsideNameServers() async -> [IPAddress]
}

/// How long the parts of a tunnel's life may take.
public struct TunnelDeadlines: Hashable, Sendable {
    /// The time from a start to its success.
    public var start: Duration
    /// The time for a cancelled start to return, and for the provider's stop.
    public var stop: Duration
    /// The time for the host to apply settings.
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
