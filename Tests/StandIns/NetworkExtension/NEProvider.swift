// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

@_exported import Foundation
import Network
import Synchronization

// Stand-ins for classes of NetworkExtension, with the signatures of
// https://developer.apple.com/documentation/networkextension/neprovider
// https://developer.apple.com/documentation/networkextension/netunnelprovider
// https://developer.apple.com/documentation/networkextension/nepackettunnelprovider
// https://developer.apple.com/documentation/networkextension/neappproxyprovider
// https://developer.apple.com/documentation/networkextension/neappproxyflow
// The behaviour of the system is in `StandInTunnel`.

open class NEProvider: NSObject {
    public override init() { super.init() }

    open class func startSystemExtensionMode() {}

    open func sleep(completionHandler: @escaping @Sendable () -> Void) { completionHandler() }

    open func wake() {}
}

public enum NETunnelProviderRoutingMethod: Int, Sendable {
    case destinationIP = 1
    case sourceApplication = 2
    case networkRule = 3
}

open class NETunnelProvider: NEProvider {
    /// The system's side of this provider.
    public let standIn = StandInTunnel()

    open func handleAppMessage(_ messageData: Data, completionHandler: (@Sendable (Data?) -> Void)? = nil) {
        completionHandler?(nil)
    }

    /// Takes effect later, as documented: the completion handler is called on a queue of the system.
    open func setTunnelNetworkSettings(
        _ tunnelNetworkSettings: NETunnelNetworkSettings?,
        completionHandler: (@Sendable ((any Error)?) -> Void)? = nil
    ) {
        standIn.apply(tunnelNetworkSettings, completionHandler)
    }

    open var protocolConfiguration: NEVPNProtocol { standIn.protocolConfiguration }

    open var routingMethod: NETunnelProviderRoutingMethod { .destinationIP }

    open var reasserting: Bool {
        get { standIn.isReasserting }
        set { standIn.setReasserting(newValue) }
    }
}

open class NEPacketTunnelProvider: NETunnelProvider {
    open func startTunnel(
        options: [String: NSObject]? = nil, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        // Subclasses must override it.
        completionHandler(NEVPNError(.configurationInvalid))
    }

    open func stopTunnel(with reason: NEProviderStopReason, completionHandler: @escaping @Sendable () -> Void) {
        completionHandler()
    }

    open func cancelTunnelWithError(_ error: (any Error)?) { standIn.cancel(error) }

    open var packetFlow: NEPacketTunnelFlow { standIn.flow }

    /// `nil` until settings are applied.
    open var virtualInterface: NWInterface? { standIn.virtualInterface }
}

/// A flow that carries no data.
open class NEAppProxyFlow: NSObject {
    public override init() { super.init() }
}

open class NEAppProxyProvider: NETunnelProvider {
    open func startProxy(
        options: [String: Any]? = nil, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        // Subclasses must override it.
        completionHandler(NEVPNError(.configurationInvalid))
    }

    open func stopProxy(with reason: NEProviderStopReason, completionHandler: @escaping @Sendable () -> Void) {
        completionHandler()
    }

    open func handleNewFlow(_ flow: NEAppProxyFlow) -> Bool { false }

    open func cancelProxyWithError(_ error: (any Error)?) { standIn.cancel(error) }

    open override var routingMethod: NETunnelProviderRoutingMethod { .sourceApplication }
}
