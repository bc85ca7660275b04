// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/networkextension/nevpnerror-swift.struct
// https://developer.apple.com/documentation/networkextension/netunnelprovidererror
// https://developer.apple.com/documentation/networkextension/nevpnconnectionerror
// https://developer.apple.com/documentation/networkextension/neproviderstopreason
// https://developer.apple.com/documentation/networkextension/nevpnstatus

public let NEVPNErrorDomain = "NEVPNErrorDomain"
public let NETunnelProviderErrorDomain = "NETunnelProviderErrorDomain"
public let NEVPNConnectionErrorDomain = "NEVPNConnectionErrorDomain"

public struct NEVPNError: Error, Hashable, CustomNSError, Sendable {
    public enum Code: Int, Sendable {
        case configurationInvalid = 1
        case configurationDisabled = 2
        case connectionFailed = 3
        case configurationStale = 4
        case configurationReadWriteFailed = 5
        case configurationUnknown = 6
    }

    public let code: Code
    public init(_ code: Code) { self.code = code }
    public static var errorDomain: String { NEVPNErrorDomain }
    public var errorCode: Int { code.rawValue }
}

public struct NETunnelProviderError: Error, Hashable, CustomNSError, Sendable {
    public enum Code: Int, Sendable {
        case networkSettingsInvalid = 1
        case networkSettingsCanceled = 2
        case networkSettingsFailed = 3
    }

    public let code: Code
    public init(_ code: Code) { self.code = code }
    public static var errorDomain: String { NETunnelProviderErrorDomain }
    public var errorCode: Int { code.rawValue }
}

public enum NEProviderStopReason: Int, Sendable {
    case none = 0
    case userInitiated = 1
    case providerFailed = 2
    case noNetworkAvailable = 3
    case unrecoverableNetworkChange = 4
    case providerDisabled = 5
    case authenticationCanceled = 6
    case configurationFailed = 7
    case idleTimeout = 8
    case configurationDisabled = 9
    case configurationRemoved = 10
    case superceded = 11
    case userLogout = 12
    case userSwitch = 13
    case connectionFailed = 14
    case sleep = 15
    case appUpdate = 16
    case internalError = 17
}

public enum NEVPNStatus: Int, Sendable {
    case invalid = 0
    case disconnected = 1
    case connecting = 2
    case connected = 3
    case reasserting = 4
    case disconnecting = 5
}

extension NSNotification.Name {
    public static let NEVPNStatusDidChange = NSNotification.Name("com.apple.networkextension.statuschange")
    public static let NEVPNConfigurationChange = NSNotification.Name("com.apple.networkextension.configurationchange")
}
