// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import PacketTunnel
public import PacketTunnelApple
public import WireGuardTunnel
import os

/// The principal class of the extension: WireGuard behind the system's tunnel provider.
public final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    /// Profiles and secrets come from the keychain that the app shares, and messages go to the unified log.
    public override var options: NetworkExtensionOptions { .example }
}

extension NetworkExtensionOptions {
    /// What both extensions of this example have.
    static var example: NetworkExtensionOptions {
        let group = Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String
        var options = NetworkExtensionOptions.standard(accessGroup: group)
        options.logger = Logging.Logger(label: "tunnel") { label in
            UnifiedLogHandler(subsystem: Bundle.main.bundleIdentifier ?? "AppleTunnel", label: label)
        }
        return options
    }
}
