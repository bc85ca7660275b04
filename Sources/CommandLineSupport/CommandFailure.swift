// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// The error of a command.
package struct CommandFailure: Error, Hashable, Sendable, CustomStringConvertible, StorageFailure {
    package var reason: String
    package var status: Int32
    /// The remedy; empty if there is none.
    package var fix: String

    package init(_ reason: String, status: Int32 = ExitStatus.failure, fix: String = "") {
        self.reason = reason
        self.status = status
        self.fix = fix
    }

    package init(_ problem: StorageProblem) {
        self.init(
            problem.reason, status: problem.isDenied ? ExitStatus.notPermitted : ExitStatus.failure, fix: problem.fix)
    }

    package var description: String { reason }
    /// The reason, followed by the remedy.
    package var text: String { fix.isEmpty ? reason : "\(reason)\n  fix: \(fix)" }

    /// Prints the error with the name of `program`, and returns the exit status.
    package func report(to console: Console, as program: String) -> Int32 {
        console.problem("\(program): \(text)")
        return status
    }
}
