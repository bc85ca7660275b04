// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation
import Synchronization

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nevpnmanager
// https://developer.apple.com/documentation/networkextension/netunnelprovidermanager
// https://developer.apple.com/documentation/networkextension/neappproxyprovidermanager
// Preferences are in `StandInPreferences`. Completion handlers are called later, on a queue of the system.

open class NEVPNManager: NSObject {
    /// The saved configuration that this object is about; nil before the first save.
    var savedID: UUID?
    /// The version of it that this object has.
    var loadedVersion = 0

    public override init() { super.init() }

    open var onDemandRules: [NEOnDemandRule]?
    open var isOnDemandEnabled = false
    open var localizedDescription: String?
    open var protocolConfiguration: NEVPNProtocol?
    open var isEnabled = false
    open var connection: NEVPNConnection { storedConnection }
    lazy var storedConnection = NEVPNConnection(StandInSession())

    open func loadFromPreferences(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        StandInPreferences.load(self, completionHandler)
    }

    open func saveToPreferences(completionHandler: (@Sendable ((any Error)?) -> Void)? = nil) {
        StandInPreferences.save(self, completionHandler)
    }

    open func removeFromPreferences(completionHandler: (@Sendable ((any Error)?) -> Void)? = nil) {
        StandInPreferences.remove(self, completionHandler)
    }
}

open class NETunnelProviderManager: NEVPNManager {
    public override init() {
        super.init()
        storedConnection = NETunnelProviderSession(StandInSession())
    }

    open var routingMethod: NETunnelProviderRoutingMethod { .destinationIP }

    open class func loadAllFromPreferences(
        completionHandler: @escaping @Sendable ([NETunnelProviderManager]?, (any Error)?) -> Void
    ) {
        StandInPreferences.loadAll(completionHandler)
    }
}

open class NEAppProxyProviderManager: NETunnelProviderManager {
    open override var routingMethod: NETunnelProviderRoutingMethod { .sourceApplication }
}
