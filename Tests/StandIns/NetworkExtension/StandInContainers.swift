// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation
import Synchronization

/// The containers of app groups, as far as a test has made some.
public enum StandInContainers {
    private static let folders = Mutex<[String: URL]>([:])

    public static func set(_ folder: URL?, for group: String) { folders.withLock { $0[group] = folder } }

    static func folder(of group: String) -> URL? { folders.withLock { $0[group] } }
}

// Foundation's additions on Apple's platforms, with the signature of
// https://developer.apple.com/documentation/foundation/filemanager/containerurl(forsecurityapplicationgroupidentifier:)
// For Apple's targets it is in Tests/StandIns/Foundation.
#if !canImport(Darwin)
    extension FileManager {
        public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? {
            StandInContainers.folder(of: groupIdentifier)
        }
    }
#endif
