// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import TunnelIO

/// The operations of a platform for a tunnel. ``TunnelRunner`` implements the rest of a host, which is the same on
/// every platform.
///
/// Calls are sequential, with one exception. If ``apply(_:)`` does not return, the runner cancels its task and may call
/// ``tearDown(leavingBlocked:)`` while it still runs. Each call has a deadline. After the deadline the runner no longer
/// waits for the call, but the next start does.
public protocol TunnelPlatform: AnyObject, Sendable {
    /// Prepares for a tunnel: undoes the changes of a crashed process, and loads the leak guard if the policy blocks
    /// from the start (``LeakPolicy/everything``). A guard that was left in place stays.
    func prepare(_ policy: LeakPolicy) async throws(TunnelError)

    /// Applies valid settings and replaces the previous ones, completely or not at all.
    /// - Returns: The tunnel's interface; the same object each time.
    func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice

    /// Undoes everything, except the leak guard if `leavingBlocked` is set. Does nothing if there is nothing to undo.
    /// The runner closes the packet flow, and with it the interface, before this call.
    func tearDown(leavingBlocked: Bool) async

    /// The mark that the provider's own sockets need to bypass the tunnel's routes and leak guard; `nil` if they need none.
    /// It is known after ``prepare(_:)`` has returned.
    var socketMark: UInt32? { get }

    /// Returns the current name servers of the network outside the tunnel, the preferred one first; empty if they are
    /// not known.
    func outsideNameServers() async -> [IPAddress]
}

/// The time limits of a tunnel's operations.
public struct TunnelDeadlines: Hashable, Sendable {
    /// The time from a start to its success.
    public var start: Duration
    /// The time for a cancelled start to return, and for the provider's stop.
    public var stop: Duration
    /// The time for the host to apply settings.
    public var settings: Duration
    /// The time for the host to undo everything.
    public var tearDown: Duration
    /// The time for the provider to prepare for sleep.
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
