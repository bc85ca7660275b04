// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nednssettings
// https://developer.apple.com/documentation/networkextension/neproxysettings
// https://developer.apple.com/documentation/networkextension/neproxyserver

open class NEDNSSettings: NSObject {
    public init(servers: [String]) {
        self.servers = servers
        super.init()
    }

    public let servers: [String]
    open var searchDomains: [String]?
    open var domainName: String?
    open var matchDomains: [String]?
    open var matchDomainsNoSearch = false
}

open class NEProxyServer: NSObject {
    public init(address: String, port: Int) {
        self.address = address
        self.port = port
        super.init()
    }

    public let address: String
    public let port: Int
    open var authenticationRequired = false
    open var username: String?
    open var password: String?
}

open class NEProxySettings: NSObject {
    public override init() { super.init() }

    open var autoProxyConfigurationEnabled = false
    open var proxyAutoConfigurationURL: URL?
    open var proxyAutoConfigurationJavaScript: String?
    open var httpEnabled = false
    open var httpServer: NEProxyServer?
    open var httpsEnabled = false
    open var httpsServer: NEProxyServer?
    open var excludeSimpleHostnames = false
    open var exceptionList: [String]?
    open var matchDomains: [String]?
}
