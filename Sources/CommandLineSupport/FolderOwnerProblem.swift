// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// Why a server cannot be who its folder belongs to.
package struct FolderOwnerProblem: Error, Hashable, Sendable, StorageFailure {
    package var reason: String
    /// The exit status of a command that ends so.
    package var status: Int32
    /// What to do; empty where there is nothing to say.
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
}
