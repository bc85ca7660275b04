// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import ArgumentParser

/// The exit statuses of every command.
package enum ExitStatus {
    package static let success: Int32 = 0
    package static let failure: Int32 = 1
    package static let usage: Int32 = 2
    package static let notFound: Int32 = 3
    package static let notPermitted: Int32 = 4
    package static let alreadyRunning: Int32 = 5
    package static let unreachable: Int32 = 6
    package static let interrupted: Int32 = 130
}

extension ParsableCommand {
    /// Ends the command with this status.
    package func finish(_ status: Int32) throws {
        guard status == ExitStatus.success else { throw ExitCode(status) }
    }
}
