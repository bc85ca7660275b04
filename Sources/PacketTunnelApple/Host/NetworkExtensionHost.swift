// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Foundation
public import NetworkExtension
public import PacketTunnel
import Synchronization

/// Runs a provider as a packet-tunnel extension. It forwards all calls to a ``NetworkExtensionBridge``.
///
/// The principal class of the extension is a subclass, which needs only this:
///
/// ```swift
/// final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
///     override var options: NetworkExtensionOptions { .standard(accessGroup: "TEAMID.com.example.tunnel") }
/// }
/// ```
open class NetworkExtensionHost<Provider: PacketTunnelProvider>: NEPacketTunnelProvider, @unchecked Sendable {
    // The mutex guards this state. The rest belongs to the system and is thread safe according to its documentation.
    private let shared = Mutex<NetworkExtensionBridge<Provider>?>(nil)

    /// A host whose tunnel is down.
    public override init() { super.init() }

    /// The options of the provider. Read once, before the first start.
    open var options: NetworkExtensionOptions { NetworkExtensionOptions() }

    /// Makes a provider, once for each start.
    open func makeProvider() -> Provider { Provider() }

    /// The bridge to the provider's runner.
    public final var bridge: NetworkExtensionBridge<Provider> {
        if let bridge = shared.withLock({ $0 }) { return bridge }
        let made = NetworkExtensionBridge<Provider>(self, options: options) { [weak self] in
            self?.makeProvider() ?? Provider()
        }
        return shared.withLock { shared in
            let bridge = shared ?? made
            shared = bridge
            return bridge
        }
    }

    /// Starts the tunnel.
    open override func startTunnel(
        options: [String: NSObject]?, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        bridge.startTunnel(options: options, completionHandler: completionHandler)
    }

    /// Stops the tunnel.
    open override func stopTunnel(
        with reason: NEProviderStopReason, completionHandler: @escaping @Sendable () -> Void
    ) {
        bridge.stopTunnel(with: reason, completionHandler: completionHandler)
    }

    /// Passes on a message of the app.
    open override func handleAppMessage(
        _ messageData: Data, completionHandler: (@Sendable (Data?) -> Void)?
    ) {
        bridge.handleAppMessage(messageData, completionHandler: completionHandler)
    }

    /// Notifies the provider that the device is about to sleep.
    open override func sleep(completionHandler: @escaping @Sendable () -> Void) {
        bridge.sleep(completionHandler: completionHandler)
    }

    /// Notifies the provider that the device woke up.
    open override func wake() { bridge.wake() }
}

extension MessageRouter {
    /// Answers a message of the app in a provider without ``NetworkExtensionHost``: an `NEAppProxyProvider`, or a
    /// packet tunnel with another superclass. The provider calls it from its method of the same name.
    ///
    /// Every message gets exactly one answer, for a `MessageClient` over a ``ProviderSessionChannel``.
    public func handleAppMessage(_ messageData: Data, completionHandler: ((Data?) -> Void)?) {
        let completion = OnceCompletion<Data?> { completionHandler?($0) }
        Task { completion.call(Data(await respond(to: Array(messageData)))) }
    }
}
