// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import PacketTunnelApple
public import WireGuardTunnel

/// The principal class of the extension: WireGuard behind the system's tunnel provider.
public final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    /// Profiles and secrets come from the keychain that the app shares, and lines of the log go where the app finds them.
    public override var options: NetworkExtensionOptions { .example }
}

extension NetworkExtensionOptions {
    /// The shared parts of this example's extensions: the keychain and the log that the app uses too.
    static var example: NetworkExtensionOptions {
        let identifier = Bundle.main.bundleIdentifier ?? "com.example.AppleTunnel.extension"
        let log = SharedLog(
            appGroup: Bundle.main.object(forInfoDictionaryKey: "CulvertAppGroup") as? String,
            // The app's, so that the unified log has both by one name.
            subsystem: identifier.split(separator: ".").dropLast().joined(separator: "."))
        return .standard(
            accessGroup: Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String, log: log)
    }
}
