// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
public import PacketTunnelApple

extension SharedLog {
    /// The log that this app and its extensions share, in the app group that their property lists name.
    public static let app = SharedLog(
        appGroup: Bundle.main.object(forInfoDictionaryKey: "CulvertAppGroup") as? String,
        subsystem: Bundle.main.bundleIdentifier ?? "com.example.AppleTunnel")
}

extension NetworkExtensionManagerOptions {
    /// For one of this app's extensions: the keychain group that both share, the app's log, and the reader of configurations
    /// that the app saved with another library.
    static func app(extension name: String, adopt: @escaping Adopt) -> NetworkExtensionManagerOptions {
        var options = NetworkExtensionManagerOptions(
            providerBundleIdentifier: (Bundle.main.bundleIdentifier ?? "com.example.AppleTunnel") + "." + name,
            accessGroup: Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String)
        options.logger = SharedLog.app.logger("app", origin: .app)
        options.adoptConfiguration = adopt
        return options
    }
}
