// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A tunnel that can be started and stopped, on any platform. It is the channel of a ``MessageClient`` to its provider.
public protocol TunnelHost: MessageChannel, AnyObject {
    /// Starts the tunnel; returns once it is up.
    ///
    /// While the tunnel stops, it waits for that to end first; either way it ends within the start's deadline.
    /// - Throws: what the provider threw; `.alreadyRunning`, `.stopped`, `.startTimedOut`, `.configurationInvalid`.
    func start(_ request: TunnelStartRequest) async throws(TunnelError)

    /// Stops the tunnel; returns once it is down, and at once when it is. Also ends blocking.
    func stop(_ reason: StopReason) async

    /// Where the host finds the secrets of profiles; nil where it has none.
    var secrets: (any SecretStore)? { get }

    /// The status now.
    var status: TunnelStatusUpdate { get }

    /// The status now and every change from now on. Ends with the host, or with the task that reads it.
    func statusUpdates() -> AsyncStream<TunnelStatusUpdate>

    /// Sends a message to the provider; returns its answer, nil when it has none.
    /// - Throws: `.notRunning`; also when the tunnel ends meanwhile.
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]?

    /// Tells the provider that the device is about to sleep; returns when it is ready, or the deadline has passed.
    func sleep() async

    /// Tells the provider that the device woke up.
    func wake()

    /// Tells the provider that the way to the network changed.
    func pathChanged(_ path: NetworkPath)
}

extension TunnelHost {
    /// Delivers a request to the provider and waits for its reply; `nil` if it has none.
    /// - Throws: as ``sendMessage(_:)``.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? { try await sendMessage(request) }
}

/// What a tunnel is started with.
public struct TunnelStartRequest: Codable, Hashable, Sendable {
    /// The provider's configuration as JSON.
    public var configuration: [UInt8]
    /// The least that may be held back; the stricter of this and the settings' policy is in force.
    public var leakPolicy: LeakPolicy
    /// The profile whose secrets the provider may read; nil when it needs none.
    public var profileID: String?

    /// A request.
    public init(configuration: [UInt8], leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil) {
        self.configuration = configuration
        self.leakPolicy = leakPolicy
        self.profileID = profileID
    }
}
