// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A tunnel whose provider runs in this process, on any platform.
public protocol TunnelHost: Tunnel, AnyObject {
    /// Stops the tunnel and ends any blocking. Returns once it is down, or immediately if it is down already.
    func stop(_ reason: StopReason) async

    /// The store of the profiles' secrets, or `nil` if the host has none.
    var secrets: (any SecretStore)? { get }

    /// Notifies the provider that the device is about to sleep. Returns when the provider is ready, or at the deadline.
    func sleep() async

    /// Notifies the provider that the device woke up.
    func wake()

    /// Notifies the provider that the network path changed.
    func pathChanged(_ path: NetworkPath)
}

/// The parameters of a start.
public struct TunnelStartRequest: Codable, Hashable, Sendable {
    /// The provider's configuration as JSON.
    public var configuration: [UInt8]
    /// The least strict leak policy to use. The stricter one of this and the settings' policy is in effect.
    public var leakPolicy: LeakPolicy
    /// The profile whose secrets the provider may read; `nil` if it needs none.
    public var profileID: String?
    /// The app's options for this start (``ProviderContext/startOptions``), without secrets; `nil` if there are none.
    public var options: [String: JSONValue]?

    /// A request.
    public init(
        configuration: [UInt8], leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil,
        options: [String: JSONValue]? = nil
    ) {
        self.configuration = configuration
        self.leakPolicy = leakPolicy
        self.profileID = profileID
        self.options = options
    }
}
