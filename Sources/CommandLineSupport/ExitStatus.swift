// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import ArgumentParser

/// The exit statuses of every command.
package enum ExitStatus {
    /// All statuses by name.
    package enum Name: Int32, CaseIterable {
        case success = 0
        case failure = 1
        case usage = 2
        case notFound = 3
        case notPermitted = 4
        case alreadyRunning = 5
        case unreachable = 6
        case loginRefused = 7
        case sessionEnded = 8
        case interrupted = 130
    }

    package static let success = Name.success.rawValue
    package static let failure = Name.failure.rawValue
    package static let usage = Name.usage.rawValue
    package static let notFound = Name.notFound.rawValue
    package static let notPermitted = Name.notPermitted.rawValue
    package static let alreadyRunning = Name.alreadyRunning.rawValue
    package static let unreachable = Name.unreachable.rawValue
    /// The server refuses the login. Another attempt with the same login will fail too.
    package static let loginRefused = Name.loginRefused.rawValue
    /// The server has ended the session permanently.
    package static let sessionEnded = Name.sessionEnded.rawValue
    package static let interrupted = Name.interrupted.rawValue
}

extension ParsableCommand {
    /// Ends the command with this status.
    package func finish(_ status: Int32) throws {
        guard status == ExitStatus.success else { throw ExitCode(status) }
    }
}
