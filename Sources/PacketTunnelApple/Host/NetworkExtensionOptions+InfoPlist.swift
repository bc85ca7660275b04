// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Foundation

extension NetworkExtensionOptions {
    /// Returns options with the keychain and the log that app and extension share, as the extension's `Info.plist` names
    /// them.
    ///
    /// - `CulvertKeychainGroup`: the keychain access group with its prefix, such as
    ///   `$(AppIdentifierPrefix)com.example.app`. If it is missing, the first group of the entitlements is used, which
    ///   the app does not share.
    /// - `CulvertAppGroup`: the app group whose container has the log file (``SharedLog``). If it is missing, lines are
    ///   written only to the unified log.
    ///
    /// The subsystem in the unified log is the app's bundle identifier: the extension's without its last part.
    public static func infoPlist(of bundle: Bundle = .main) -> NetworkExtensionOptions {
        func value(_ key: String) -> String? { bundle.object(forInfoDictionaryKey: key) as? String }
        let app = (bundle.bundleIdentifier ?? "culvert.extension").split(separator: ".").dropLast()
        let log = SharedLog(appGroup: value("CulvertAppGroup"), subsystem: app.joined(separator: "."))
        return .standard(accessGroup: value("CulvertKeychainGroup"), log: log)
    }
}
