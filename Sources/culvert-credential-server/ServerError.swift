// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

/// Why a command of the server cannot do its work.
struct ServerError: Error, Hashable, Sendable, CustomStringConvertible, StorageFailure {
    var reason: String
    var status: Int32
    /// What to do; empty where there is nothing to say.
    var fix: String

    init(_ reason: String, status: Int32 = ExitStatus.failure, fix: String = "") {
        self.reason = reason
        self.status = status
        self.fix = fix
    }

    init(_ problem: StorageProblem) {
        self.init(
            problem.reason, status: problem.isDenied ? ExitStatus.notPermitted : ExitStatus.failure, fix: problem.fix)
    }

    init(_ problem: FolderOwnerProblem) { self.init(problem.reason, status: problem.status, fix: problem.fix) }

    var description: String { reason }

    /// Says it, and returns the exit status.
    func tell(_ console: Console) -> Int32 {
        console.problem("culvert-credential-server: \(reason)")
        if !fix.isEmpty { console.problem("  fix: \(fix)") }
        return status
    }
}
