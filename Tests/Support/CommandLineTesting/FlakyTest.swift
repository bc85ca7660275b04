// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Tests that fail the first time (`dev/environments flaky`).
package enum FlakyTest {
    /// The folder in which each test leaves a file; nil except in `dev/environments flaky`.
    package static let folder = ProcessInfo.processInfo.environment["CULVERT_FLAKY"]

    /// Returns whether a test has run before, and creates its file.
    package static func hasRun(name: String = #function) throws -> Bool {
        let file = URL(filePath: folder ?? "").appending(path: name)
        let hasRun = FileManager.default.fileExists(atPath: file.path)
        try Data().write(to: file)
        return hasRun
    }
}
