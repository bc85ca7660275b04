// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/netunnelnetworksettings
// https://developer.apple.com/documentation/networkextension/nepackettunnelnetworksettings
// https://developer.apple.com/documentation/networkextension/neipv4settings
// https://developer.apple.com/documentation/networkextension/neipv4route
// https://developer.apple.com/documentation/networkextension/neipv6settings
// https://developer.apple.com/documentation/networkextension/neipv6route

open class NETunnelNetworkSettings: NSObject {
    public init(tunnelRemoteAddress address: String) {
        tunnelRemoteAddress = address
        super.init()
    }

    public let tunnelRemoteAddress: String
    open var dnsSettings: NEDNSSettings?
    open var proxySettings: NEProxySettings?
}

open class NEPacketTunnelNetworkSettings: NETunnelNetworkSettings {
    open var ipv4Settings: NEIPv4Settings?
    open var ipv6Settings: NEIPv6Settings?
    open var tunnelOverheadBytes: NSNumber?
    open var mtu: NSNumber?
}

open class NEIPv4Settings: NSObject {
    public init(addresses: [String], subnetMasks: [String]) {
        self.addresses = addresses
        self.subnetMasks = subnetMasks
        super.init()
    }

    public let addresses: [String]
    public let subnetMasks: [String]
    open var includedRoutes: [NEIPv4Route]?
    open var excludedRoutes: [NEIPv4Route]?
}

open class NEIPv4Route: NSObject {
    public init(destinationAddress address: String, subnetMask: String) {
        destinationAddress = address
        destinationSubnetMask = subnetMask
        super.init()
    }

    public let destinationAddress: String
    public let destinationSubnetMask: String
    open var gatewayAddress: String?

    open class func `default`() -> NEIPv4Route {
        NEIPv4Route(destinationAddress: "0.0.0.0", subnetMask: "0.0.0.0")
    }
}

open class NEIPv6Settings: NSObject {
    public init(addresses: [String], networkPrefixLengths: [NSNumber]) {
        self.addresses = addresses
        self.networkPrefixLengths = networkPrefixLengths
        super.init()
    }

    public let addresses: [String]
    public let networkPrefixLengths: [NSNumber]
    open var includedRoutes: [NEIPv6Route]?
    open var excludedRoutes: [NEIPv6Route]?
}

open class NEIPv6Route: NSObject {
    public init(destinationAddress address: String, networkPrefixLength: NSNumber) {
        destinationAddress = address
        destinationNetworkPrefixLength = networkPrefixLength
        super.init()
    }

    public let destinationAddress: String
    public let destinationNetworkPrefixLength: NSNumber
    open var gatewayAddress: String?

    open class func `default`() -> NEIPv6Route { NEIPv6Route(destinationAddress: "::", networkPrefixLength: 0) }
}
