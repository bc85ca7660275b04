// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nevpnprotocol
// https://developer.apple.com/documentation/networkextension/netunnelproviderprotocol

open class NEVPNProtocol: NSObject {
    public override init() { super.init() }

    open var serverAddress: String?
    open var username: String?
    open var passwordReference: Data?
    open var identityReference: Data?
    open var disconnectOnSleep = false
    open var proxySettings: NEProxySettings?
    open var includeAllNetworks = false
    open var excludeLocalNetworks = true
    open var excludeCellularServices = true
    open var excludeAPNs = true
    open var excludeDeviceCommunication = true
    open var enforceRoutes = false

    /// A copy, as preferences keep one.
    open override func copy() -> Any {
        let copy = type(of: self).make()
        copy.serverAddress = serverAddress
        copy.username = username
        copy.passwordReference = passwordReference
        copy.identityReference = identityReference
        copy.disconnectOnSleep = disconnectOnSleep
        copy.proxySettings = proxySettings
        copy.includeAllNetworks = includeAllNetworks
        copy.excludeLocalNetworks = excludeLocalNetworks
        copy.excludeCellularServices = excludeCellularServices
        copy.excludeAPNs = excludeAPNs
        copy.excludeDeviceCommunication = excludeDeviceCommunication
        copy.enforceRoutes = enforceRoutes
        return copy
    }

    class func make() -> NEVPNProtocol { NEVPNProtocol() }
}

open class NETunnelProviderProtocol: NEVPNProtocol {
    open var providerConfiguration: [String: Any]?
    open var providerBundleIdentifier: String?

    open override func copy() -> Any {
        let copy = super.copy()
        if let copy = copy as? NETunnelProviderProtocol {
            copy.providerConfiguration = providerConfiguration
            copy.providerBundleIdentifier = providerBundleIdentifier
        }
        return copy
    }

    override class func make() -> NEVPNProtocol { NETunnelProviderProtocol() }
}
