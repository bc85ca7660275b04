// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/neondemandrule
// https://developer.apple.com/documentation/networkextension/neondemandruleinterfacetype
// The interface types are those of iOS; macOS has `ethernet` instead of `cellular`.

public enum NEOnDemandRuleAction: Int, Sendable {
    case connect = 1
    case disconnect = 2
    case evaluateConnection = 3
    case ignore = 4
}

public enum NEOnDemandRuleInterfaceType: Int, Sendable {
    case any = 0
    case wiFi = 2
    case cellular = 3
}

open class NEOnDemandRule: NSObject {
    public override init() { super.init() }

    open var action: NEOnDemandRuleAction { .ignore }
    open var dnsSearchDomainMatch: [String]?
    open var dnsServerAddressMatch: [String]?
    open var interfaceTypeMatch = NEOnDemandRuleInterfaceType.any
    open var ssidMatch: [String]?
    open var probeURL: URL?
}

open class NEOnDemandRuleConnect: NEOnDemandRule {
    open override var action: NEOnDemandRuleAction { .connect }
}

open class NEOnDemandRuleDisconnect: NEOnDemandRule {
    open override var action: NEOnDemandRuleAction { .disconnect }
}

open class NEOnDemandRuleIgnore: NEOnDemandRule {
    open override var action: NEOnDemandRuleAction { .ignore }
}
